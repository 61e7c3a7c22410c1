"""Which rewards had other defaults: by exact names, and in a mixture by the members' own names."""

from revd.former_defaults import former_parameters


def test_a_reward_of_ones_own_never_had_any() -> None:
    assert former_parameters("revd_2") == former_parameters("my.module:Ride") == {}
    assert former_parameters("ride") == {"update_fraction": 1.0}


def test_members_are_named_as_the_mixture_names_them() -> None:
    assert former_parameters("ride+ride") == {"ride.update_fraction": 1.0, "ride_2.update_fraction": 1.0}
    assert former_parameters("my.module:Ride+ride") == {"ride_2.update_fraction": 1.0}
    assert former_parameters(["rnd", "revd"]) == {"revd.merge_duplicates": False}
