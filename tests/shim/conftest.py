"""Makes the shim importable from the source tree."""

import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT / "python-sitecustomize", Path(__file__).parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture(autouse=True)
def _repeatable():
    """Each test starts from the same random stream and leaves one thread."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
