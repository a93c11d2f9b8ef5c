"""The real device with real models: tiny random ones of every family against transformers, and the demo model."""
