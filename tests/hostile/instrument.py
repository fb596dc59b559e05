"""A copy of the shim in which every call first tells a function that it is due.

``f(x)`` becomes ``(ckpt_site(n), f)[1](x)``: what ckpt_site raises looks like an
error of the call itself.
"""

import ast
import shutil

from job import ROOT, built

SHIM = ROOT / "python-sitecustomize"

# Calls of the job's own functions, and those that only lead there: what these
# raise is the job's, and must reach it.
THE_JOBS = {"original", "frame.original", "controller.block_forward",
            "self._root_forward", "self.frames.forward"}

# Calls that only lead to functions that guard what they do, every call of which
# is tried for itself; and torch's own that takes a pair of hooks off a stack.
GUARDED = {"pack", "self.unpack", "self._refill", "_pop_hooks"}


class Sites(ast.NodeTransformer):
    """Numbers the calls of one file, on from `first`."""

    def __init__(self, file, first):
        self.file = file
        self.first = first
        self.names = []
        self.function = "<module>"

    def visit_FunctionDef(self, node):
        outer, self.function = self.function, node.name
        self.generic_visit(node)
        self.function = outer
        return node

    def visit_Call(self, node):
        text = ast.unparse(node.func)
        self.generic_visit(node)
        if text in THE_JOBS | GUARDED:
            return node
        number = ast.Constant(self.first + len(self.names))
        self.names.append(f"{self.file}:{self.function}: {text}()")
        told = ast.Call(ast.Name("ckpt_site", ast.Load()), [number], [])
        pair = ast.Tuple([told, node.func], ast.Load())
        node.func = ast.Subscript(pair, ast.Constant(1), ast.Load())
        return node


def copy(folder):
    """The library and its changed shim in folder; the names of all sites."""
    for name in ("libckptagent.so", "libckptplan.so"):
        shutil.copy(built(name), folder / name)
    names = []
    for source in sorted(SHIM.rglob("*.py")):
        path = source.relative_to(SHIM)
        sites = Sites(path.name, len(names))
        tree = ast.fix_missing_locations(sites.visit(ast.parse(source.read_text())))
        target = folder / SHIM.name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(ast.unparse(tree))
        names += sites.names
    return names
