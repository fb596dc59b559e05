"""Starts ckptagent's shim in a process that uses torch; otherwise steps aside.

The preloaded library runs this file once torch allocates, with
``__ckptagent_library__`` set. It also works in the ordinary way, as the
``sitecustomize`` of a PYTHONPATH: it then runs the one that it hides, and the
library does the rest. ``ckptagent_again`` tells the library to come back later,
``ckptagent_raised`` that what was raised here is for the job.
"""

import os
import sys

ckptagent_again = ckptagent_raised = False


def _torch_is_imported():
    torch = sys.modules.get("torch")
    spec = getattr(torch, "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


def _package():
    """The shim's package under its own name, without touching sys.path."""
    import importlib.util

    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ckptshim")
    spec = importlib.util.spec_from_file_location(
        "ckptshim", os.path.join(folder, "__init__.py"),
        submodule_search_locations=[folder])
    package = importlib.util.module_from_spec(spec)
    sys.modules["ckptshim"] = package
    spec.loader.exec_module(package)
    return importlib.import_module("ckptshim.boot")


def _is_the_jobs(error):
    """Whether a signal handler of the job raised it while this was running."""
    try:
        from ckptshim.interrupts import is_the_jobs
    except Exception:       # what is broken here has raised the error, too
        return False
    return is_the_jobs(error)


def _chain():
    """Run the sitecustomize that this one hides."""
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    path = [p for p in sys.path if os.path.abspath(p) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "__ckptagent_library__" not in globals():
    _chain()
elif not _torch_is_imported():
    ckptagent_again = True
elif "ckptshim" not in sys.modules:
    try:
        _package().start(globals()["__ckptagent_library__"])
    except BaseException as error:
        ckptagent_raised = _is_the_jobs(error)
        raise
