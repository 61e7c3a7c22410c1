"""PyBullet where there is one."""

import sys

import pytest

#: For tests that need PyBullet, which ships wheels up to Python 3.11 only.
needs_pybullet = pytest.mark.skipif(sys.version_info >= (3, 12), reason="pybullet has no wheel for Python 3.12")
