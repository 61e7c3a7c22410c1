from dataclasses import dataclass

import numpy as np
import pytest

from revd.analysis.drawing.film import CURVE, HEADER, MAX_FRAME_HEIGHT, WIDTH, Film

ORANGE = (0xD5, 0x5E, 0x00)


@dataclass
class Episode:
    frames: list
    rewards: np.ndarray
    bonus: np.ndarray | None


def make_episode(n=8, shape=(120, 160, 3), bonus=True):
    frames = [np.full(shape, 20 * index, dtype=np.uint8) for index in range(n)]
    return Episode(frames, np.ones(n), np.linspace(0, 2, n, dtype=np.float32) if bonus else None)


def curve(picture):
    """The columns in which something of the curve's colour is drawn."""
    below = picture[-CURVE:, 40:].astype(int)
    return np.flatnonzero((np.abs(below - ORANGE).sum(axis=2) < 30).any(axis=0))


def test_a_picture_holds_the_frame_under_a_header():
    film = Film(make_episode(), title="PPO on Nowhere")
    assert len(film) == 8
    picture = film.picture(3)
    assert picture.shape == (HEADER + 240 + CURVE, WIDTH, 3)
    assert picture.dtype == np.uint8
    left = (WIDTH - 320) // 2
    assert (picture[HEADER : HEADER + 240, left : left + 320] == 60).all()
    assert (picture[HEADER : HEADER + 240, :left] == 255).all()
    assert picture[:HEADER].min() < 60, "text"


def test_the_curve_grows_and_the_numbers_change():
    film = Film(make_episode(), title="x")
    widths = [curve(film.picture(step)).max() for step in range(8)]
    assert widths == sorted(set(widths))
    headers = [film.picture(step)[:HEADER].tobytes() for step in range(8)]
    assert len(set(headers)) == 8


def test_pictures_do_not_depend_on_their_order():
    film = Film(make_episode(), title="x")
    backwards = [film.picture(step) for step in reversed(range(8))]
    for step, picture in enumerate(reversed(backwards)):
        np.testing.assert_array_equal(film.picture(step), picture)
        np.testing.assert_array_equal(Film(make_episode(), title="x").picture(step), picture)


def test_without_a_bonus_there_is_no_curve():
    film = Film(make_episode(bonus=False), title="x")
    assert film.picture(0).shape == (HEADER + 240, WIDTH, 3)


def test_the_texts_of_the_header():
    episode = make_episode(n=3)
    episode.rewards = np.array([1.5, -0.25, 1000])
    assert Film(episode, title="x")._header_texts(1) == ("step 2", "task reward 1.25", "bonus 1")
    assert Film(make_episode(bonus=False), title="x")._header_texts(0)[2] == "no bonus"


@pytest.mark.parametrize(
    ("shape", "shown"),
    [
        ((240, 320, 3), (316, 420)),
        ((800, 800, 3), (MAX_FRAME_HEIGHT, 316)),
        ((100, 1000, 3), (42, 420)),
        ((21, 30, 3), (42, 60)),
        ((210, 160, 3), (316, 241)),
    ],
)
def test_large_frames_are_made_smaller_and_heights_even(shape, shown):
    film = Film(make_episode(n=1, shape=shape), title="x")
    assert film._frame_shape == shown
    assert film.picture(0).shape[0] % 2 == 0


@pytest.mark.parametrize("bonus", [[0.0, 0.0], [1.0], [-1.0, -3.0], [1e6, 2e-3]])
def test_any_bonus_can_be_drawn(bonus):
    episode = make_episode(n=len(bonus))
    episode.bonus = np.array(bonus, dtype=np.float32)
    end = curve(Film(episode, title="x").picture(len(bonus) - 1)).max()
    assert end > 350 if len(bonus) > 1 else end < 20, "a line to the right border, or a dot on the left one"


def test_long_titles_are_made_to_fit():
    picture = Film(make_episode(), title="RECURRENT-PPO+REVD on minigrid/key-corridor-s3r3 " * 3).picture(0)
    assert (picture[: HEADER // 2, -10:] == 255).all()
