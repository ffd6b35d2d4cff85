"""How numba compiles the kernels: with the passes that they need, and each kernel once.

Numba optimises a function, emits its machine code, links it into its caller and optimises it there
again. Here a kernel that only kernels call is linked as numba lowered it, and optimised in its
caller alone. No kernel has closures, `with`, `raise`, literal loops or array expressions, so the
passes for them are left out: a kernel that needs one is refused when it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core import typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.registry import CPUDispatcher
from numba.core.types.misc import unliteral

_PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.DeadBranchPrune,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.AnnotateTypes,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


class _ForTypes(CPUDispatcher):
    """A kernel that is compiled for types alone.

    Numba compiles a function anew for each literal number that kernels call it with.
    """

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """The template of a call with numbers in place of literals."""
        return super().get_call_template(tuple(map(unliteral, args)), kws)


def for_types(**options: Any) -> Callable[[Any], Any]:
    """The decorator of kernels that are compiled once for all literal numbers in their calls."""
    compiled = numba.njit(**options)

    def decorate(function: Any) -> Any:
        kernel = compiled(function)
        kernel.__class__ = _ForTypes
        return kernel

    return decorate


class Entry(CompilerBase):
    """Of functions that Python, or another module, calls."""

    def define_pipelines(self) -> list[Any]:
        """The passes, in order."""
        state = self.state
        if state.library is None:
            state.library = _Whole(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        passes = PassManager("kernel")
        for each in _PASSES:
            passes.add_pass(each, each.__name__)
        passes.finalize()
        return [passes]


class Inner(Entry):
    """Of functions that kernels of the same module call."""

    def define_pipelines(self) -> list[Any]:
        """The passes, into a library that is linked as it is."""
        state = self.state
        state.library = _Linked(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class _Whole(JITCodeLibrary):
    """Code that is optimised once, when all is there."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout


class _Linked(_Whole):
    """Code without optimisation and without an address."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """None."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> _Linked:
        """Where `set_env` looks for an address."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing: what has no address has no environment."""
