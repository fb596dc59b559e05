"""Pinned host memory."""


def test_pinned_memory_is_known_as_such(phantom):
    assert phantom.run("""
        x = torch.ones(1000).pin_memory()
        y = torch.empty(1 << 20, pin_memory=True)
        z = torch.ones(1000)
        on_device = x.to("cuda", non_blocking=True)
        back = torch.empty(1000, pin_memory=True).copy_(on_device)
        torch.cuda.synchronize()
        result = [x.is_pinned(), y.is_pinned(), x[10:].is_pinned(), z.is_pinned(),
                  bool((back == 1).all())]
        """).result == [True, True, True, False, True]


def test_memory_is_registered_once_and_unregistered(phantom):
    assert phantom.run("""
        cudart, x = torch.cuda.cudart(), torch.ones(1000)
        start, size = x.data_ptr(), x.nbytes
        result = [int(cudart.cudaHostRegister(start, size, 0)), x.is_pinned(),
                  int(cudart.cudaHostRegister(start + 8, 8, 0)),
                  int(cudart.cudaHostUnregister(start)), x.is_pinned(),
                  int(cudart.cudaHostUnregister(start))]
        """).result == [0, True, 712, 0, False, 713]


def test_a_loader_pins_in_its_thread_beside_workers(phantom):
    assert phantom.run("""
        data = torch.utils.data.TensorDataset(torch.arange(64.).view(16, 4))
        loader = torch.utils.data.DataLoader(data, 4, pin_memory=True, num_workers=2)
        torch.ones(1, device="cuda")
        batches = [b for b, in loader]
        result = [[b.is_pinned() for b in batches],
                  [b.to("cuda", non_blocking=True).shape[0] for b in batches]]
        """).result == [[True] * 4, [4] * 4]
