"""
The running robots of pybullet_envs_gymnasium with few calls into the physics engine.

The package reads every joint, link and foot with a call of its own, some of them several times a step. Here one call
sets all torques, one reads all joints, one all links and one all contacts with the ground.

Observations, rewards and ends of episodes equal the package's to the last bit. Where the package adds or multiplies
with NumPy, so does this module: Python's own sums and products could round differently.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from revd.envs.silence import silenced

with silenced():
    import pybullet
    from pybullet_envs_gymnasium import gym_locomotion_envs as package_envs
    from pybullet_envs_gymnasium import robot_locomotors as package_robots

Observation = NDArray[np.float32]
Action = NDArray[np.float32]
Vector = tuple[float, float, float]

#: PyBullet's index of a body's base, where links count from 0.
_BASE = -1
_LINK_OF_FIRST_BODY = 3  # in a contact point
_LINEAR_VELOCITY = 6  # in a link's state
#: Entries of an observation before those of the joints.
_BODY_ENTRIES = 8
_LOWEST, _HIGHEST, _MINUS_ONE, _ONE = (np.array(limit, np.float32) for limit in (-5, 5, -1, 1))
#: Numbers above this one are above 0.99 when rounded to float32, as the package compares them. The middle itself rounds
#: to 0.99, whose last bit is even.
_AT_LIMIT = (float(np.float32(0.99)) + float(np.nextafter(np.float32(0.99), np.float32(1)))) / 2
#: The type of a Python float times a float32, which is float64 in NumPy 1 and float32 in NumPy 2.
_PRODUCT: type[np.floating[Any]] = type(1.0 * np.float32(1))


@dataclass(frozen=True)
class _Layout:
    """What never changes of a loaded robot."""

    body: int
    joints: list[int]
    ranges: list[tuple[float, float]]
    """Of each joint: the lower limit and the distance from it to the upper one."""
    motors: list[int]
    gains: NDArray[np.floating[Any]]
    """Torque of each motor for an action of 1."""
    links: list[int]
    root: int
    """Place of the torso among the robot's parts."""
    root_is_base: bool
    ground: list[Vector]
    """Positions of the parts that belong to the ground, which the package counts as the robot's."""


class _Robot(package_robots.WalkerBase):
    """A robot that drives and reads all its joints at once."""

    layout: _Layout
    initial_z: Any

    def __init__(self) -> None:
        super().__init__()
        self._rotation = np.eye(3)
        self._n_parts = 0

    def drive(self, action: Action) -> None:
        """Set the torques; the same as `apply_action`, for float32."""
        layout = self.layout
        values = action.tolist()
        assert all(map(math.isfinite, values))
        if max(values) > 1 or min(values) < -1:
            action = np.minimum(np.maximum(action, _MINUS_ONE), _ONE)
        torques = (layout.gains * action).tolist()
        client = self._p._client
        pybullet.setJointMotorControlArray(
            layout.body, layout.motors, pybullet.TORQUE_CONTROL, forces=torques, physicsClientId=client
        )

    def calc_state(self) -> Observation:
        """The observation. Also notes what the package notes: joints, position, orientation and target."""
        # The first reset adds the ground to the parts.
        if len(self.parts) != self._n_parts:
            self.layout, self._n_parts = self._find_layout(), len(self.parts)
        joints = self._read_joints()
        velocity = self._read_links()
        roll, pitch, yaw = self.body_rpy
        z = self.body_xyz[2]
        if self.initial_z is None:
            self.initial_z = np.float64(z)
        angle = self._find_target() - yaw
        cos, sin = np.cos(-yaw), np.sin(-yaw)
        rotation = self._rotation
        rotation[0, 0] = rotation[1, 1] = cos
        rotation[0, 1], rotation[1, 0] = -sin, sin
        vx, vy, vz = rotation.dot(velocity).tolist()
        body = (z - self.initial_z, np.sin(angle), np.cos(angle), 0.3 * vx, 0.3 * vy, 0.3 * vz, roll, pitch)
        state = np.array([*body, *joints, *self.feet_contact.tolist()], dtype=np.float32)
        self.joint_speeds = state[_BODY_ENTRIES + 1 : _BODY_ENTRIES + len(joints) : 2]
        clipped: Observation = np.minimum(np.maximum(state, _LOWEST), _HIGHEST)
        return clipped

    def _read_joints(self) -> list[float]:
        """Position and speed of each joint, scaled; counts the joints at a limit."""
        layout = self.layout
        numbers: list[float] = []
        at_limit = 0
        states = pybullet.getJointStates(layout.body, layout.joints, self._p._client)
        for (position, speed, _, _), (lower, width) in zip(states, layout.ranges, strict=True):
            relative = 2 * (position - lower) / width - 1.0
            at_limit += abs(relative) > _AT_LIMIT
            numbers += (relative, 0.1 * speed)
        self.joints_at_limit = at_limit
        return numbers

    def _read_links(self) -> Vector:
        """Note the mean position of the parts, position and orientation of the torso; return the torso's velocity."""
        layout, client = self.layout, self._p._client
        body = layout.body
        velocity: Vector
        # The arguments after the links: whether to compute velocities, and whether to compute the positions anew.
        if layout.root_is_base:
            positions = [state[0] for state in pybullet.getLinkStates(body, layout.links, 0, 0, client)]
            torso, orientation = pybullet.getBasePositionAndOrientation(body, client)
            positions.insert(layout.root, torso)
            velocity = pybullet.getBaseVelocity(body, client)[0]
        else:
            states = pybullet.getLinkStates(body, layout.links, 1, 0, client)
            positions = [state[0] for state in states]
            torso, orientation = states[layout.root][:2]
            velocity = states[layout.root][_LINEAR_VELOCITY]
        positions += layout.ground
        xs, ys, _ = zip(*positions, strict=True)
        x, y = np.add.reduce(np.array((xs, ys)), 1).tolist()
        self.body_xyz = (x / len(positions), y / len(positions), torso[2])
        self.body_real_xyz = torso
        self.body_rpy = pybullet.getEulerFromQuaternion(orientation)
        return velocity

    def _find_target(self) -> np.float64:
        """Note the distance of the target; return its direction."""
        x, y, _ = self.body_xyz
        offset = np.array((self.walk_target_y - y, self.walk_target_x - x))
        self.walk_target_dist = math.sqrt(offset.dot(offset))
        direction: np.float64 = np.arctan2(*offset.tolist())
        self.walk_target_theta = direction
        return direction

    def _find_layout(self) -> _Layout:
        root = self.robot_body
        body = root.bodies[root.bodyIndex]
        parts = list(self.parts.values())
        # The ground's parts were added last.
        own = [part.bodyPartIndex for part in parts if part.bodies[part.bodyIndex] == body]
        return _Layout(
            body=body,
            joints=[joint.jointIndex for joint in self.ordered_joints],
            ranges=[(joint.lowerLimit, joint.upperLimit - joint.lowerLimit) for joint in self.ordered_joints],
            motors=[joint.jointIndex for joint in self._motors()],
            gains=self._gains(),
            links=[link for link in own if link != _BASE],
            root=own.index(root.bodyPartIndex),
            root_is_base=root.bodyPartIndex == _BASE,
            ground=[tuple(part.current_position().tolist()) for part in parts[len(own) :]],
        )

    def _motors(self) -> list[Any]:
        return list(self.ordered_joints)

    def _gains(self) -> NDArray[np.floating[Any]]:
        return np.array([self.power * joint.power_coef for joint in self.ordered_joints])


class _HumanoidRobot(_Robot, package_robots.Humanoid):
    """The humanoid has a list of motors of its own, whose torques the package computes in another precision."""

    def _motors(self) -> list[Any]:
        return list(self.motors)

    def _gains(self) -> NDArray[np.floating[Any]]:
        return np.array([power * self.power for power in self.motor_power], _PRODUCT)


class _AntRobot(_Robot, package_robots.Ant):
    pass


class _HalfCheetahRobot(_Robot, package_robots.HalfCheetah):
    pass


class _HopperRobot(_Robot, package_robots.Hopper):
    pass


class _Walker2DRobot(_Robot, package_robots.Walker2D):
    pass


class _RobotEnv(package_envs.WalkerBaseBulletEnv):
    """The package's environment around a robot of this module."""

    robot_class: ClassVar[type[_Robot]]
    potential: Any

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        self.robot = self.robot_class()
        self.robot.np_random = self.np_random
        self._costs = np.empty((2, *self.action_space.shape), np.float32)

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Advance by one step. Actions that are not float32 arrays are left to the package."""
        if getattr(action, "dtype", None) != np.float32:  # they are rounded otherwise
            result: tuple[Observation, float, bool, bool, dict[str, Any]] = super().step(action)
            return result
        robot = self.robot
        robot.drive(action)
        pybullet.stepSimulation(self._p._client)
        state = robot.calc_state()
        self._alive = float(robot.alive_bonus(state[0] + robot.initial_z, robot.body_rpy[1]))
        done = self._isDone()
        # Its entries are at most 5, so that only a NaN among them gives a product that is not finite.
        if not math.isfinite(state.dot(state)):
            print("~INF~", state)
            done = True
        before, self.potential = self.potential, robot.calc_potential()
        self._feel_ground()
        limits = float(self.joints_at_limit_cost * robot.joints_at_limit)
        # The last is the package's cost of collisions, which it never charges.
        self.rewards = [self._alive, float(self.potential - before), self._effort(action), limits, 0.0]
        reward = sum(self.rewards)
        self.reward += reward
        return state, reward, bool(done), False, {}

    def _feel_ground(self) -> None:
        """Note which feet touch the ground."""
        robot = self.robot
        ((ground, link),) = self.ground_ids
        contacts = pybullet.getContactPoints(
            robot.layout.body, ground, linkIndexB=link, physicsClientId=self._p._client
        )
        touching = {contact[_LINK_OF_FIRST_BODY] for contact in contacts}
        for i, foot in enumerate(robot.feet):
            robot.feet_contact[i] = foot.bodyPartIndex in touching

    def _effort(self, action: Action) -> float:
        """The costs of power and of torque; means are computed in float32, as `ndarray.mean` computes them."""
        power, torque = self._costs
        np.abs(action * self.robot.joint_speeds, power)
        np.multiply(action, action, torque)
        n = action.size
        total_power, total_torque = np.add.reduce(self._costs, 1).tolist()
        cost: float = self.electricity_cost * float(np.float32(total_power / n))
        cost += self.stall_torque_cost * float(np.float32(total_torque / n))
        return cost


class Ant(_RobotEnv, package_envs.AntBulletEnv):
    """AntBulletEnv with few calls."""

    robot_class = _AntRobot


class HalfCheetah(_RobotEnv, package_envs.HalfCheetahBulletEnv):
    """HalfCheetahBulletEnv with few calls."""

    robot_class = _HalfCheetahRobot


class Hopper(_RobotEnv, package_envs.HopperBulletEnv):
    """HopperBulletEnv with few calls."""

    robot_class = _HopperRobot


class Humanoid(_RobotEnv, package_envs.HumanoidBulletEnv):
    """HumanoidBulletEnv with few calls."""

    robot_class = _HumanoidRobot


class Walker2D(_RobotEnv, package_envs.Walker2DBulletEnv):
    """Walker2DBulletEnv with few calls."""

    robot_class = _Walker2DRobot
