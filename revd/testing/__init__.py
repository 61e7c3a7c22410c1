"""The contracts of an intrinsic reward, as checks that run on any reward, including a user's own.

::

    from revd.testing import check_reward, reward_checks

    check_reward(MyReward)  # all contracts at once


    @pytest.mark.parametrize(("name", "check"), reward_checks())  # or one test for each contract
    def test_contract(name, check):
        check(MyReward)
"""

from revd.testing.checks import check_reward, reward_checks

__all__ = ["check_reward", "reward_checks"]
