"""Films as files: GIF, which needs nothing more, and MP4."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from revd.analysis.drawing.film import Film

SUFFIXES = (".gif", ".mp4")
#: A GIF counts in hundredths of a second, and viewers show a frame of less than two of them for ten.
LARGEST_FPS = 50
#: Seconds for which the last picture of a GIF is shown before it begins anew.
PAUSE = 1.0
# Pictures from which the one palette of a GIF is taken.
_SAMPLES = 8
_NEARLY_WHITE = 248


def check_film(path: Path, fps: int) -> None:
    """Raise a ValueError, before anything is drawn, if a film cannot be written there or be that fast."""
    if path.suffix not in SUFFIXES or path.is_dir():
        raise ValueError(f"output must be a file whose name ends in {' or '.join(SUFFIXES)}, got {str(path)!r}")
    if not 1 <= fps <= LARGEST_FPS:
        raise ValueError(f"fps must lie in 1 … {LARGEST_FPS}, got {fps}")
    if path.suffix == ".mp4" and find_spec("imageio_ffmpeg") is None:
        raise ValueError("a film as .mp4 needs imageio-ffmpeg: pip install 'revd[video]'; a .gif does not")


def save_film(film: Film, path: Path, *, fps: int) -> Path:
    """Write a film, in the format that the file's name asks for, with so many steps a second."""
    check_film(path, fps)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gif":
        _save_gif(film, path, fps)
    else:
        _save_mp4(film, path, fps)
    return path


def _save_gif(film: Film, path: Path, fps: int) -> None:
    # One palette for all: it is found once, and what does not move keeps its exact colours and takes no space.
    palette = _palette(film)
    images = _images(film, palette)
    milliseconds = 10 * round(100 / fps)
    durations = [milliseconds] * (len(film) - 1) + [round(1000 * PAUSE)]
    next(images).save(path, format="GIF", save_all=True, append_images=images, duration=durations, loop=0)


def _images(film: Film, palette: Image.Image) -> Iterator[Image.Image]:
    for step in range(len(film)):
        yield Image.fromarray(film.picture(step)).quantize(palette=palette, dither=Image.Dither.NONE)


def _palette(film: Film) -> Image.Image:
    steps = np.unique(np.linspace(0, len(film) - 1, _SAMPLES).round().astype(int))
    sample = Image.fromarray(np.concatenate([film.picture(int(step)) for step in steps]))
    palette = sample.quantize()
    colours = np.array(palette.getpalette()).reshape(-1, 3)
    # Pillow rounds colours before it looks for the nearest one, which would turn the white paper grey.
    colours[(colours >= _NEARLY_WHITE).all(axis=1)] = 255
    palette.putpalette(colours.ravel().tolist())
    return palette


def _save_mp4(film: Film, path: Path, fps: int) -> None:
    # Optional, and not needed for a GIF.
    from imageio_ffmpeg import write_frames

    height, width, _ = film.picture(0).shape
    # Both are even, which is all that the pixel format asks for.
    writer = write_frames(str(path), (width, height), fps=fps, macro_block_size=2, quality=7, ffmpeg_log_level="error")
    writer.send(None)
    for step in range(len(film)):
        writer.send(film.picture(step).tobytes())
    writer.close()
