"""The planner library, called as the shim calls it."""

import ctypes
import json

import job

PLANNERS = ("optimal", "dynamic_programming", "greedy", "uniform",
            "checkpoint_all", "no_checkpoint")


class Planner:
    def __init__(self):
        self.library = ctypes.CDLL(str(job.built("libckptplan.so")))
        self.library.ckptplan_free.argtypes = [ctypes.c_void_p]

    def solve(self, profile, planner, budget, kind=0):
        """The one plan (a dict) for a budget in bytes; profile is text."""
        request = json.dumps({"kind": kind, "planner": planner,
                              "target": "budget", "value": budget})
        plan = ctypes.c_void_p()
        why = ctypes.create_string_buffer(512)
        status = self.library.ckptplan_solve(
            profile.encode(), request.encode(), ctypes.byref(plan), why,
            ctypes.c_size_t(len(why)))
        if status:
            raise ValueError(f"{planner}: {why.value.decode()}")
        try:
            return json.loads(ctypes.string_at(plan))["plans"][0]
        finally:
            self.library.ckptplan_free(plan)

    def solve_all(self, profile, budget, kind=0):
        """Planner name -> its plan, or why it refused."""
        plans = {}
        for planner in PLANNERS:
            try:
                plans[planner] = self.solve(profile, planner, budget, kind)
            except ValueError as error:
                plans[planner] = str(error)
        return plans
