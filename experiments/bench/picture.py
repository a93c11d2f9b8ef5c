"""The README's picture: `python -m experiments.bench.picture` writes reports/gallery/azure-conv-like.png."""

from __future__ import annotations

from pathlib import Path

PICTURE = Path("reports/gallery/azure-conv-like.png")


def main() -> None:
    """Replay the default workload and draw its overview."""
    import schedlab
    from reports.plots import write_overview_png

    result = schedlab.replay("azure-conv-like", slo={"ttft": "2s", "tpot": "100ms"})
    print(write_overview_png(PICTURE, result.requests, result.timeline, result.summary, result.config))


if __name__ == "__main__":
    main()
