"""Hardware and model shapes: numbers from public data sheets and public model configurations."""

from backends.sim.specs.hardware import HardwareSpec, find_hardware
from backends.sim.specs.models import ModelShape, find_model

__all__ = ["HardwareSpec", "ModelShape", "find_hardware", "find_model"]
