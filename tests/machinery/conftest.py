"""Starts the jobs that the chosen tests need before the first of them waits."""

import concurrent.futures
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import runs  # noqa: E402

_pool = concurrent.futures.ThreadPoolExecutor(2)


def pytest_collection_finish(session):
    """Each script's jobs run once without and once with the agent."""
    scripts = dict.fromkeys(
        item.module.SCRIPT for item in session.items
        if getattr(item.module, "SCRIPT", None))
    for script in () if session.config.option.collectonly else scripts:
        for agent in (False, True):
            _pool.submit(runs.start, script, agent)
