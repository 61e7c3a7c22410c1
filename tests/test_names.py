from revd.names import unknown_name


def test_nearest_names_come_first_and_case_does_not_matter():
    message = unknown_name("task", "cartpole-v1", ["CartPole-v1", "Acrobot-v1"])
    assert message.startswith("unknown task 'cartpole-v1'; did you mean 'CartPole-v1'")
    assert message.endswith("(valid: Acrobot-v1, CartPole-v1)")


def test_without_a_near_name_the_valid_ones_are_listed():
    assert unknown_name("algo", "zzz", ["ppo"]) == "unknown algo 'zzz' (valid: ppo)"


def test_long_lists_are_left_out():
    assert "valid" not in unknown_name("task", "zzz", [f"task-{index}" for index in range(30)])
