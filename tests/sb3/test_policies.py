"""Models that earlier versions saved can still be loaded."""

import io
import pickle

import pytest

from revd.training.policies import PaperCNN, PaperCnnPolicy


@pytest.mark.parametrize("found", [PaperCnnPolicy, PaperCNN])
def test_the_module_path_in_old_pickles_leads_to_the_class(found):
    """A `model.zip` of an earlier version names `revd.sb3.policies`, from where these classes have moved."""
    pickled = f"crevd.sb3.policies\n{found.__name__}\n.".encode()  # protocol 0: module and name of a global
    assert pickle.load(io.BytesIO(pickled)) is found


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="NoSuchPolicy"):
        pickle.loads(b"crevd.sb3.policies\nNoSuchPolicy\n.")
