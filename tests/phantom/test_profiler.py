"""torch's profilers with CUDA switched on."""


def test_the_profiler_sees_memory_and_survives_without_kernels(phantom):
    assert phantom.run("""
        from torch.profiler import ProfilerActivity, profile
        result = []
        for _ in range(2):
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                         profile_memory=True, record_shapes=True) as profiled:
                model = torch.nn.Linear(1024, 1024, device="cuda")
                model(torch.ones(8, 1024, device="cuda")).sum().backward()
                torch.cuda.synchronize()
            used = [e.name for e in profiled.events()
                    if getattr(e, "device_memory_usage", 0) > 1 << 20]
            result.append("aten::empty" in used)
            profiled.key_averages().table(sort_by="device_memory_usage")
        """, CKPT_PHANTOM_STRICT="1").result == [True, True]


def test_the_history_of_memory_is_recorded(phantom):
    actions = phantom.run("""
        torch.cuda.memory._record_memory_history()
        x = torch.ones(1 << 20, device="cuda")
        del x
        torch.cuda.empty_cache()
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        result = [e["action"] for e in trace]
        """).result
    assert actions == ["segment_alloc", "alloc", "free_requested", "free_completed",
                       "segment_free"]


def test_cupti_has_one_subscriber_and_ranges_are_harmless(phantom):
    assert phantom.run("""
        lib = ctypes.CDLL(next(l.split()[-1] for l in open("/proc/self/maps")
                               if "libcupti" in l))
        first, second = ctypes.c_void_p(), ctypes.c_void_p(1)
        result = [lib.cuptiSubscribe(ctypes.byref(first), None, None),
                  lib.cuptiSubscribe(ctypes.byref(second), None, None),
                  second.value, lib.cuptiUnsubscribe(first),
                  lib.cuptiUnsubscribe(first)]
        """, torch=False).result == [0, 39, None, 0, 1]
