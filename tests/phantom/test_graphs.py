"""CUDA graphs: captured and replayed, with nothing in them that computes."""


def test_a_graph_is_captured_into_a_pool_of_its_own(phantom):
    private, nodes, kept, after = phantom.run("""
        def private():
            return sum(s["total_size"] for s in torch.cuda.memory_snapshot()
                       if tuple(s["segment_pool_id"]) != (0, 0))
        graph = torch.cuda.CUDAGraph()
        x = torch.ones(1 << 20, device="cuda")
        with torch.cuda.graph(graph):
            y = x * 2
            z = y + x
        held = private()
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        del y, z
        torch.cuda.empty_cache()
        kept = private()
        graph.reset()
        torch.cuda.empty_cache()
        result = [held, True, kept, private()]
        """).result
    assert private == kept == 20 << 20
    assert after == 0


def test_an_empty_graph_is_noticed(phantom):
    """As torch does: it counts the nodes."""
    assert phantom.run("""
        import warnings
        def caught(work):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                with torch.cuda.graph(torch.cuda.CUDAGraph()):
                    work()
            return any("empty" in str(w.message) for w in said)
        x = torch.ones(10, device="cuda")
        result = [caught(lambda: None), caught(lambda: x + 1)]
        """).result == [True, False]


def test_a_side_stream_joins_the_capture(phantom):
    assert phantom.run("""
        side, x = torch.cuda.Stream(), torch.ones(10, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            main = torch.cuda.current_stream()
            side.wait_stream(main)
            with torch.cuda.stream(side):
                inside = torch.cuda.is_current_stream_capturing()
                y = x + 1
            main.wait_stream(side)
        with torch.cuda.stream(side):
            result = [inside, torch.cuda.is_current_stream_capturing()]
        graph.replay()
        """).result == [True, False]


def test_waiting_for_the_device_ends_a_capture(phantom):
    message, later = phantom.run("""
        x = torch.ones(10, device="cuda")
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                (x + 1).sum().item()
        except RuntimeError as error:
            message = str(error)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x + 1
        graph.replay()
        result = [message, True]
        """).result
    assert "captur" in message and later


def test_a_training_step_runs_as_a_graph(phantom):
    assert phantom.run("""
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(),
                                    torch.nn.Linear(64, 64)).cuda()
        x = torch.randn(8, 64, device="cuda")
        graphed = torch.cuda.make_graphed_callables(model, (x,))
        graphed(x.clone()).sum().backward()
        result = model[0].weight.grad is not None
        """).result is True


def test_host_functions_in_a_graph_run_at_each_launch(phantom):
    assert phantom.run("""
        lib, calls = ctypes.CDLL(None), []
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(calls.append)
        stream, graph, run = (ctypes.c_void_p() for _ in range(3))
        lib.cudaStreamCreate(ctypes.byref(stream))
        lib.cudaStreamBeginCapture(stream, 0)
        lib.cudaLaunchHostFunc(stream, function, ctypes.c_void_p(7))
        captured = list(calls)
        assert not lib.cudaStreamEndCapture(stream, ctypes.byref(graph))
        lib.cudaGraphInstantiateWithFlags.argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulonglong]
        lib.cudaGraphInstantiateWithFlags(ctypes.byref(run), graph, 0)
        lib.cudaGraphDestroy(graph)
        lib.cudaGraphLaunch(run, stream)
        lib.cudaGraphLaunch(run, stream)
        lib.cudaLaunchHostFunc(stream, function, ctypes.c_void_p(8))
        result = [captured, calls]
        """, torch=False).result == [[], [7, 7, 8]]


def test_unsafe_calls_during_a_capture_follow_its_mode(phantom):
    """Global and thread-local captures forbid them here, relaxed ones do not."""
    assert phantom.run("""
        lib, result = ctypes.CDLL(None), []
        stream, graph, p = (ctypes.c_void_p() for _ in range(3))
        lib.cudaStreamCreate(ctypes.byref(stream))
        def malloc():
            return lib.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(1))
        def captured(mode, thread=0):
            mine = ctypes.c_int(thread)
            lib.cudaThreadExchangeStreamCaptureMode(ctypes.byref(mine))
            lib.cudaStreamBeginCapture(stream, mode)
            status = malloc()
            ended = lib.cudaStreamEndCapture(stream, ctypes.byref(graph))
            lib.cudaThreadExchangeStreamCaptureMode(ctypes.byref(mine))
            return [status, ended, graph.value is not None]
        result = [captured(0), captured(1), captured(2), captured(0, thread=2),
                  malloc(), lib.cudaStreamEndCapture(stream, ctypes.byref(graph))]
        """, torch=False).result == [
            [900, 901, False], [900, 901, False], [0, 0, True], [0, 0, True], 0, 903]
