"""Kernels of CUDA that run on the host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from test.engines.support.host_cuda import HostKernels


@pytest.fixture(scope='module')
def host_kernels() -> Iterator[HostKernels]:
    """Kernels run on the host."""
    from stereo_bp_ros.engines.cuda.runtime import compiler
    kernels = HostKernels()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, 'kernel', kernels.kernel)
        yield kernels
