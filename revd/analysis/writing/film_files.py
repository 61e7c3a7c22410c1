"""Films as GIF files, and as MP4 files if imageio-ffmpeg is installed."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from revd.analysis.drawing.film import Film

SUFFIXES = (".gif", ".mp4")
#: A GIF has frame times in hundredths of a second; viewers show frames of less than two of them for ten.
MAX_FPS = 50
#: Seconds for which a GIF shows its last picture before it repeats.
FINAL_SECONDS = 1.0
# Pictures from which the palette of a GIF is computed.
_PALETTE_SAMPLES = 8
_NEARLY_WHITE = 248


def check_film(path: Path, fps: int) -> None:
    """Raise a ValueError if a film cannot be written to this path or have this frame rate."""
    if path.suffix not in SUFFIXES or path.is_dir():
        raise ValueError(f"output must be a file whose name ends in {' or '.join(SUFFIXES)}, got {str(path)!r}")
    if not 1 <= fps <= MAX_FPS:
        raise ValueError(f"fps must lie in 1 … {MAX_FPS}, got {fps}")
    if path.suffix == ".mp4" and find_spec("imageio_ffmpeg") is None:
        raise ValueError("a film as .mp4 needs imageio-ffmpeg: pip install 'revd[video]'; a .gif does not")


def save_film(film: Film, path: Path, *, fps: int) -> Path:
    """Write a film in the format of the file's suffix, with `fps` steps in a second."""
    check_film(path, fps)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gif":
        _save_gif(film, path, fps)
    else:
        _save_mp4(film, path, fps)
    return path


def _save_gif(film: Film, path: Path, fps: int) -> None:
    # With one palette for all pictures, unchanged parts keep their exact colours and take no space.
    palette = _palette(film)
    images = _images(film, palette)
    milliseconds = 10 * round(100 / fps)
    durations = [milliseconds] * (len(film) - 1) + [round(1000 * FINAL_SECONDS)]
    next(images).save(path, format="GIF", save_all=True, append_images=images, duration=durations, loop=0)


def _images(film: Film, palette: Image.Image) -> Iterator[Image.Image]:
    for step in range(len(film)):
        yield Image.fromarray(film.picture(step)).quantize(palette=palette, dither=Image.Dither.NONE)


def _palette(film: Film) -> Image.Image:
    steps = np.unique(np.linspace(0, len(film) - 1, _PALETTE_SAMPLES).round().astype(int))
    sample = Image.fromarray(np.concatenate([film.picture(int(step)) for step in steps]))
    palette = sample.quantize()
    colours = np.array(palette.getpalette()).reshape(-1, 3)
    # Pillow rounds colours before it looks up the nearest one, which would turn white into grey.
    colours[(colours >= _NEARLY_WHITE).all(axis=1)] = 255
    palette.putpalette(colours.ravel().tolist())
    return palette


def _save_mp4(film: Film, path: Path, fps: int) -> None:
    # Imported here because it is optional.
    from imageio_ffmpeg import write_frames

    height, width, _ = film.picture(0).shape
    # The pixel format only requires even sizes, and both are even.
    writer = write_frames(str(path), (width, height), fps=fps, macro_block_size=2, quality=7, ffmpeg_log_level="error")
    writer.send(None)
    for step in range(len(film)):
        writer.send(film.picture(step).tobytes())
    writer.close()
