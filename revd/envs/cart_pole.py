"""PyBullet's continuous cart-pole as a Gymnasium environment, because no maintained package has one.

The model (cartpole.urdf of pybullet_data) and all numbers are from PyBullet's own example.
"""

import math
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revd.envs.silence import silenced

with silenced():
    import pybullet
    import pybullet_data

GYMNASIUM_ID = "revd/BulletCartPole-v0"
TIME_LIMIT = 200
MAX_FORCE = 10.0
SECONDS_A_STEP = 0.02
GRAVITY = 9.8
MAX_POSITION = 0.4
MAX_ANGLE = math.radians(12)
START_RANGE = 0.05

_BASE, _CART, _POLE = -1, 0, 1
_FRAME = (480, 320)

Observation = NDArray[np.float32]
Action = NDArray[np.float32]


class BulletCartPole(gymnasium.Env[Observation, Action]):
    """Balance a pole by pushing its cart.

    Observation: angle and angular velocity of the pole, position and velocity of the cart, in PyBullet's units. They
    start uniformly within ±0.05. Action: a force on the cart in N, within ±10; it is not scaled to ±1, so a Gaussian
    policy starts with gentle pushes. Reward: 1 in each step. The episode terminates when the pole leans by more than 12
    degrees or the cart is further than 0.4 from the middle. Gymnasium's time limit truncates it after 200 steps.
    """

    # Gymnasium declares this without ClassVar.
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": round(1 / SECONDS_A_STEP)}  # type: ignore[misc]

    def __init__(self, render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
        self.render_mode = render_mode
        limits = np.array([2 * MAX_ANGLE, np.inf, 2 * MAX_POSITION, np.inf], dtype=np.float32)
        self.observation_space = spaces.Box(-limits, limits)
        self.action_space = spaces.Box(-MAX_FORCE, MAX_FORCE, (1,))
        self._client = -1
        self._body = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Reset cart and pole to a random state near the middle."""
        super().reset(seed=seed)
        if self._client < 0:
            self._connect()
        angle, angular_velocity, position, velocity = self.np_random.uniform(-START_RANGE, START_RANGE, 4)
        pybullet.resetJointState(self._body, _POLE, angle, angular_velocity, physicsClientId=self._client)
        pybullet.resetJointState(self._body, _CART, position, velocity, physicsClientId=self._client)
        return self._observe(), {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Apply a force for a fiftieth of a second."""
        force = float(np.clip(action, -MAX_FORCE, MAX_FORCE)[0])
        pybullet.setJointMotorControl2(
            self._body, _CART, pybullet.TORQUE_CONTROL, force=force, physicsClientId=self._client
        )
        pybullet.stepSimulation(physicsClientId=self._client)
        observation = self._observe()
        fallen = bool(abs(observation[0]) > MAX_ANGLE or abs(observation[2]) > MAX_POSITION)
        return observation, 1.0, fallen, False, {}

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        """The scene from the side, (height, width, 3), or None without `render_mode="rgb_array"`."""
        if self.render_mode is None or self._client < 0:
            return None
        width, height = _FRAME
        view = pybullet.computeViewMatrix([0, -2.2, 0.6], [0, 0, 0.4], [0, 0, 1], physicsClientId=self._client)
        lens = pybullet.computeProjectionMatrixFOV(50, width / height, 0.1, 10, physicsClientId=self._client)
        pixels = pybullet.getCameraImage(
            width, height, view, lens, renderer=pybullet.ER_TINY_RENDERER, physicsClientId=self._client
        )[2]
        return np.reshape(np.asarray(pixels, dtype=np.uint8), (height, width, 4))[..., :3]

    def close(self) -> None:
        """Disconnect from the physics engine; a later reset connects again."""
        if self._client >= 0:
            pybullet.disconnect(physicsClientId=self._client)
            self._client = -1

    def _connect(self) -> None:
        """Connect to a physics engine of this environment's own, and build the scene."""
        with silenced():
            self._client = pybullet.connect(pybullet.DIRECT)
        client = {"physicsClientId": self._client}
        pybullet.setGravity(0, 0, -GRAVITY, **client)
        pybullet.setTimeStep(SECONDS_A_STEP, **client)
        self._body = pybullet.loadURDF(str(Path(pybullet_data.getDataPath()) / "cartpole.urdf"), **client)
        for link in (_BASE, _CART, _POLE):
            pybullet.changeDynamics(self._body, link, linearDamping=0, angularDamping=0, **client)
        for joint in (_CART, _POLE):
            # By default, each joint has a motor that brakes it.
            pybullet.setJointMotorControl2(self._body, joint, pybullet.VELOCITY_CONTROL, force=0, **client)

    def _observe(self) -> Observation:
        pole, cart = pybullet.getJointStates(self._body, (_POLE, _CART), physicsClientId=self._client)
        return np.array([*pole[:2], *cart[:2]], dtype=np.float32)


gymnasium.register(GYMNASIUM_ID, entry_point=f"{__name__}:BulletCartPole", max_episode_steps=TIME_LIMIT)
