"""The contract of an intrinsic reward as checks that run on any of them, a user's own too.

::

    from revd.testing import check_reward, reward_checks

    check_reward(MyReward)  # everything at once


    @pytest.mark.parametrize(("name", "check"), reward_checks())  # or a test for each contract
    def test_contract(name, check):
        check(MyReward)
"""

from revd.testing.suite import check_reward, reward_checks

__all__ = ["check_reward", "reward_checks"]
