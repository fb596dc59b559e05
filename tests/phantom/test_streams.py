"""Streams and events: what is put on a stream has happened at once."""


def test_streams_and_events(phantom):
    assert phantom.run("""
        side = torch.cuda.Stream(priority=-1)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        with torch.cuda.stream(side):
            x = torch.ones(10, device="cuda") + 1
            end.record()
        torch.cuda.current_stream().wait_stream(side)
        x.record_stream(torch.cuda.current_stream())
        side.synchronize()
        end.synchronize()
        result = [side.priority, side.query(), end.query(),
                  0 <= start.elapsed_time(end) < 60000,
                  torch.cuda.current_stream() == torch.cuda.default_stream()]
        """).result == [-1, True, True, True, True]


def test_memory_used_on_another_stream_is_given_back_after_it(phantom):
    """The allocator asks an event, which has happened."""
    assert phantom.run("""
        side = torch.cuda.Stream()
        x = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
        x.record_stream(side)
        del x
        y = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
        result = [torch.cuda.memory_reserved() >> 20]
        """).result == [100]


def test_time_needs_two_recorded_events_that_keep_it(phantom):
    messages = phantom.run("""
        def fails(start, end):
            try:
                start.elapsed_time(end)
            except (RuntimeError, ValueError) as error:
                return str(error)
        timed = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        plain = torch.cuda.Event()
        timed[0].record()
        plain.record()
        lib, ms = ctypes.CDLL(None), ctypes.c_float()
        status = lib.cudaEventElapsedTime(
            ctypes.byref(ms), ctypes.c_void_p(timed[0].cuda_event),
            ctypes.c_void_p(plain.cuda_event))
        result = [fails(timed[0], timed[1]) is not None,
                  fails(timed[0], plain) is not None, status]
        """).result
    assert messages == [True, True, 400]    # cudaErrorInvalidResourceHandle


def test_a_handle_is_not_good_after_its_end(phantom):
    assert phantom.run("""
        lib, stream, event = ctypes.CDLL(None), ctypes.c_void_p(), ctypes.c_void_p()
        lib.cudaStreamCreate(ctypes.byref(stream))
        lib.cudaEventCreate(ctypes.byref(event))
        result = [lib.cudaEventRecord(event, stream), lib.cudaEventDestroy(event),
                  lib.cudaEventRecord(event, stream), lib.cudaEventDestroy(event),
                  lib.cudaStreamDestroy(stream), lib.cudaStreamDestroy(stream),
                  lib.cudaStreamSynchronize(stream), lib.cudaStreamSynchronize(None)]
        """, torch=False).result == [0, 0, 400, 400, 0, 400, 400, 0]


def test_an_impossible_launch_is_refused(phantom):
    """More threads than a block may have, no block, too much shared memory."""
    assert phantom.run("""
        class Dim3(ctypes.Structure):
            _fields_ = [(name, ctypes.c_uint) for name in "xyz"]
        launch = ctypes.CDLL(None).cudaLaunchKernel
        launch.argtypes = [ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p,
                           ctypes.c_size_t, ctypes.c_void_p]
        def status(grid, threads, shared=0):
            return launch(None, Dim3(grid, 1, 1), Dim3(threads, 1, 1), None, shared,
                          None)
        result = [status(1, 1024), status(1, 1025), status(0, 1),
                  status(1, 1, 163 << 10), status(1, 1, (163 << 10) + 1)]
        """, torch=False,
        CKPT_PHANTOM_DEVICE="A100-80G").result == [0, 9, 9, 0, 9]
