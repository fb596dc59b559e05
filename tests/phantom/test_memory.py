"""torch's own caching allocator on the phantom's memory."""

MIB = 1 << 20


def test_statistics_and_the_device_agree_to_the_byte(phantom):
    steps = phantom.run("""
        def now():
            free, total = torch.cuda.mem_get_info()
            return [torch.cuda.memory_allocated(), torch.cuda.memory_reserved(),
                    total - free]
        torch.cuda.init()
        result = [now()]
        x = torch.empty(1000, 1000, device="cuda")
        result.append(now())
        y = torch.empty(3, device="cuda")
        result.append(now())
        z = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
        result.append(now())
        del x, y, z
        result.append(now())
        torch.cuda.empty_cache()
        result.append(now())
        """, CKPT_PHANTOM_CONTEXT="300M").result
    context = 300 * MIB
    assert steps == [
        [0, 0, context],
        [4000256, 20 * MIB, context + 20 * MIB],
        [4000768, 22 * MIB, context + 22 * MIB],
        [4000768 + 30 * MIB, 52 * MIB, context + 52 * MIB],
        [0, 52 * MIB, context + 52 * MIB],
        [0, 0, context],
    ]


def test_peaks_are_kept_and_reset(phantom):
    assert phantom.run("""
        x = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
        y = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
        del x
        high = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        result = [high, torch.cuda.max_memory_allocated()]
        """).result == [16 * MIB, 8 * MIB]


def test_out_of_memory_is_torchs_own_error_and_can_be_survived(phantom):
    message, retries, after = phantom.run("""
        try:
            torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            message = str(error)
        x = torch.empty(400 << 20, dtype=torch.uint8, device="cuda")
        del x   # cached: too small for the next, and in its way
        y = torch.empty(700 << 20, dtype=torch.uint8, device="cuda")
        result = [message, torch.cuda.memory_stats()["num_alloc_retries"],
                  torch.cuda.memory_reserved()]
        """, CKPT_PHANTOM_MEMORY="1G", CKPT_PHANTOM_CONTEXT="100M").result
    assert message.startswith(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 1024.00 MiB of which 924.00 MiB is free. ")
    assert retries == 2
    assert after == 700 * MIB


def test_memory_is_taken_and_refused_in_grains_of_two_mebibytes(phantom):
    assert phantom.run("""
        lib = ctypes.CDLL(None)
        def malloc(n):
            p = ctypes.c_void_p(1)
            return [lib.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(n)), p.value]
        def free():
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            assert not lib.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
            return free.value >> 20
        first, one, second, two = free(), malloc(1), free(), malloc((2 << 20) + 1)
        third, none, huge = free(), malloc(0), malloc(2 ** 64 - 1)
        assert lib.cudaFree(ctypes.c_void_p(one[1])) == 0
        again = lib.cudaFree(ctypes.c_void_p(one[1]))
        result = [first, one[0], second, two[0], third, none, huge, again, free(),
                  one[1] % (2 << 20), two[1] % (2 << 20), lib.cudaGetLastError(),
                  lib.cudaGetLastError()]
        """, torch=False, CKPT_PHANTOM_MEMORY="64M",
        CKPT_PHANTOM_CONTEXT="0").result == [
            64, 0, 62, 0, 58, [0, None], [2, None], 1, 60, 0, 0, 1, 0]


def test_a_fraction_of_the_device_can_be_set(phantom):
    assert phantom.run("""
        torch.cuda.set_per_process_memory_fraction(0.01)
        try:
            torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            result = True
        """).result is True


def test_the_asynchronous_backend_has_a_pool(phantom):
    used, reserved, device, trimmed, survived = phantom.run("""
        torch.cuda.init()
        before = torch.cuda.mem_get_info()[0]
        x = [torch.empty(1000, dtype=torch.uint8, device="cuda")
             for _ in range(100)]
        y = torch.empty(40 << 20, dtype=torch.uint8, device="cuda")
        used, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        device = before - torch.cuda.mem_get_info()[0]
        del x, y
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        trimmed = before - torch.cuda.mem_get_info()[0]
        try:
            torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            survived = torch.empty(900 << 20, dtype=torch.uint8, device="cuda")
        result = [used, reserved, device, trimmed, survived.nbytes >> 20]
        """, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync",
        CKPT_PHANTOM_MEMORY="1G", CKPT_PHANTOM_CONTEXT="100M").result
    assert used == 100 * 1024 + 40 * MIB
    assert reserved == device == 64 * MIB
    assert trimmed == 0
    assert survived == 900


def test_addresses_repeat_from_run_to_run(phantom):
    code = """
        x = [torch.empty(n, device="cuda") for n in (10, 10 ** 6, 10 ** 7)]
        result = [t.data_ptr() for t in x]
        """
    assert phantom.run(code).result == phantom.run(code).result


def test_a_large_model_takes_no_host_memory(phantom):
    grown = phantom.run("""
        def resident():
            line = next(l for l in open("/proc/self/status") if "VmRSS" in l)
            return int(line.split()[1]) << 10
        torch.ones(1, device="cuda")
        before = resident()
        x = [torch.zeros(1 << 30, device="cuda") for _ in range(10)]
        y = [t * 2 for t in x[:5]]
        cpu = torch.ones(64 << 20)
        z = [cpu.to("cuda") for _ in range(8)]
        result = resident() - before
        """).result
    assert grown < 400 * MIB  # of 62 GiB; `cpu` itself is 256 MiB


def test_what_a_kernel_would_have_counted_reads_as_zero(phantom):
    """Though the memory held something else before."""
    assert phantom.run("""
        for _ in range(50):     # parameters that came from the host, long gone
            torch.randn(100).cuda()
        x = torch.ones(100, device="cuda")
        result = [x.sum().item(), list(torch.nonzero(x).shape),
                  list(x[x > 0].shape)]
        """).result == [0, [0, 1], [0]]


def test_what_the_host_wrote_can_be_read_back(phantom):
    assert phantom.run("""
        result = []
        for size in (1, 8, 9, 1000, 200_000):
            x = torch.arange(size, dtype=torch.int64) + 1
            y = x.cuda()
            z = torch.empty_like(y).copy_(y)
            result.append([torch.equal(y.cpu(), x), torch.equal(z.cpu(), x)])
        """, CKPT_PHANTOM_COPY_MAX="2M").result == [[True, True]] * 5


def test_copies_above_the_limit_are_not_made(phantom):
    assert phantom.run("""
        x = torch.ones(1000, dtype=torch.uint8).cuda()
        y = torch.ones(1001, dtype=torch.uint8).cuda()
        result = [int(x.cpu().sum()), int(y.cpu().sum())]
        """, CKPT_PHANTOM_COPY_MAX="1000").result == [1000, 0]
