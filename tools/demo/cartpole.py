#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A live vectorised CartPole trainer that logs every metric of every environment at every step.

Thousands of pole-and-cart environments run side by side under a small policy that learns while it is watched: an actor and
a critic, linear in ten features, updated every 16 steps with a clipped policy gradient. Physics as in the classic control
problem of Barto, Sutton and Anderson (1983).

    python3 tools/demo/cartpole.py --run demo --envs 50000 --seconds 30
"""

import argparse
import json
import sys
import time

import numpy as np

import tallyman

METRICS = ["x", "x_dot", "theta", "theta_dot", "action", "reward", "done", "ep_length", "return", "value", "advantage",
           "log_prob", "entropy", "abs_theta", "x_dot_sq", "td_error", "ratio", "clipped", "episode", "noise"]
ROLLOUT = 16
GAMMA, CLIP = np.float32(0.99), np.float32(0.2)
GRAVITY, CART, POLE, HALF_LENGTH, FORCE, TAU = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
X_LIMIT, THETA_LIMIT, STEPS_LIMIT = 2.4, 12 * np.pi / 180, 500


class CartPoles:
    """N environments in one (4, N) array: x, x', theta, theta'."""

    def __init__(self, n, rng):
        self.rng = rng
        self.state = rng.uniform(-0.05, 0.05, (4, n)).astype(np.float32)
        self.length = np.zeros(n, np.int32)
        self.returns = np.zeros(n, np.float32)
        self.episode = np.zeros(n, np.int32)

    def step(self, action):
        x, x_dot, theta, theta_dot = self.state
        force = np.where(action > 0, np.float32(FORCE), np.float32(-FORCE))
        cos, sin = np.cos(theta), np.sin(theta)
        total = np.float32(CART + POLE)
        push = (force + np.float32(POLE * HALF_LENGTH) * theta_dot ** 2 * sin) / total
        theta_acc = (np.float32(GRAVITY) * sin - cos * push) / (
            np.float32(HALF_LENGTH) * (np.float32(4 / 3) - np.float32(POLE) * cos ** 2 / total))
        x_acc = push - np.float32(POLE * HALF_LENGTH) * theta_acc * cos / total
        tau = np.float32(TAU)
        self.state = np.stack([x + tau * x_dot, x_dot + tau * x_acc, theta + tau * theta_dot, theta_dot + tau * theta_acc])
        self.length += 1
        self.returns += 1
        fell = (np.abs(self.state[0]) > X_LIMIT) | (np.abs(self.state[2]) > THETA_LIMIT)
        return fell | (self.length >= STEPS_LIMIT)

    def reset(self, ended):
        n = int(ended.sum())
        self.state[:, ended] = self.rng.uniform(-0.05, 0.05, (4, n)).astype(np.float32)
        self.length[ended] = 0
        self.returns[ended] = 0
        self.episode[ended] += 1


def features(state):
    """Bounded, so that an environment that is never reset does not blow up the critic."""
    x, x_dot, theta, theta_dot = np.clip(state.T, [-3, -4, -0.4, -4], [3, 4, 0.4, 4]).T.astype(np.float32)
    return np.stack([np.ones_like(x), x, x_dot, theta * 5, theta_dot, x * x, x_dot * x_dot, theta * theta * 25,
                     theta_dot * theta_dot, theta * theta_dot * 5]).astype(np.float32)


class Learner:
    """Actor and critic, linear in the features; the update is a clipped policy gradient over one rollout."""

    def __init__(self):
        self.actor = np.zeros(10, np.float32)
        self.behaviour = self.actor.copy()  # the weights that chose the actions of the last rollout
        self.critic = np.zeros(10, np.float32)
        self.rollout = []

    def act(self, f, noise):
        p = 1 / (1 + np.exp(-np.clip(self.actor @ f, -15, 15)))
        action = (noise < p).astype(np.float32)
        log_prob = np.log(np.where(action > 0, p, 1 - p))
        return p, action, log_prob

    def remember(self, f, action, log_prob, td):
        self.rollout.append((f, action, log_prob, td))
        if len(self.rollout) < ROLLOUT:
            return None
        loss = self.update()
        self.rollout.clear()
        return loss

    def update(self):
        self.behaviour = self.actor.copy()
        losses = []
        for f, action, old_log_prob, td in self.rollout:
            scale = np.float32(1 / (td.std() + 1e-6))
            p, ratio, clipped = self.ratio_of(f, action, old_log_prob)
            pushed = np.where(clipped, 0, ratio * td * scale)
            self.actor += np.float32(0.05) * (f @ ((action - p) * pushed)) / f.shape[1]
            self.critic += np.float32(0.01) * (f @ np.clip(td, -10, 10)) / f.shape[1]
            losses.append(float(np.mean(td * td)))
        return sum(losses) / len(losses)

    def ratio_of(self, f, action, old_log_prob):
        p = 1 / (1 + np.exp(-np.clip(self.actor @ f, -15, 15)))
        ratio = np.exp(np.log(np.where(action > 0, p, 1 - p)) - old_log_prob)
        return p, ratio, np.abs(ratio - 1) > CLIP


def train(run, args):
    rng = np.random.default_rng(args.seed)
    envs, learner = CartPoles(args.envs, rng), Learner()
    block = run.block(METRICS, envs=args.envs, dtype="f32")
    out = np.empty((len(METRICS), args.envs), np.float32)
    frozen = np.zeros(args.envs, bool)
    frozen[: args.frozen] = True  # these stop resetting half-way: something for the SQL to find
    began, step, logging_s = time.monotonic(), 0, 0.0
    while time.monotonic() - began < args.seconds:
        f = features(envs.state)
        noise = rng.random(args.envs, dtype=np.float32)
        p, action, log_prob = learner.act(f, noise)
        value = learner.critic @ f
        done = envs.step(action)
        next_value = np.where(done, 0, learner.critic @ features(envs.state))
        reward = np.ones(args.envs, np.float32)
        td = reward + GAMMA * next_value - value
        _, ratio, clipped = learner.ratio_of(f, action, log_prob)
        x, x_dot, theta, theta_dot = envs.state
        entropy = -(p * np.log(p) + (1 - p) * np.log1p(-p))
        for row, values in enumerate([x, x_dot, theta, theta_dot, action, reward, done, envs.length, envs.returns, value, td,
                                      log_prob, entropy, np.abs(theta), x_dot * x_dot, td, ratio, clipped, envs.episode, noise]):
            out[row] = values
        half_way = time.monotonic() - began > args.seconds / 2
        ended = done & ~(frozen & half_way)

        before = time.monotonic()
        block.log(out, step=step, rl_step=step // ROLLOUT)
        if ended.any():
            ids = np.flatnonzero(ended).astype(np.uint32)
            run.log_episodes(env=ids, episode=envs.episode[ids].astype(np.int64), ret=envs.returns[ids].astype(np.float64),
                             length=envs.length[ids].astype(np.int64), step=step)
        loss = learner.remember(f, action, log_prob, td)
        if loss is not None:
            run.log({"train/value_loss": loss, "train/mean_return": float(envs.returns.mean())}, step=step, rl_step=step // ROLLOUT)
        logging_s += time.monotonic() - before

        envs.reset(ended)
        step += 1
        if args.rate > 0:
            ahead = step * len(METRICS) * args.envs / args.rate - (time.monotonic() - began)
            if ahead > 0:
                time.sleep(ahead)
    return step, time.monotonic() - began, logging_s


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default=None, help="run id (default: a new one)")
    parser.add_argument("--socket", default=None, help="the agent's socket")
    parser.add_argument("--envs", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rate", type=float, default=6e6, help="points per second at most; 0 = as fast as it runs")
    parser.add_argument("--frozen", type=int, default=3, help="environments that stop resetting half-way")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the totals as one JSON object")
    args = parser.parse_args()
    if args.socket:
        import os
        os.environ["TALLYMAN_SOCKET"] = args.socket
    with tallyman.init(project="quickstart", run_id=args.run, producers=1, config=vars(args)) as run:
        steps, seconds, logging_s = train(run, args)
        points = steps * len(METRICS) * args.envs + 2 * (steps // ROLLOUT)
    if args.json:
        print(json.dumps({"points": points, "steps": steps, "seconds": seconds, "share_in_log": logging_s / seconds}))
    else:
        print(f"{points:,} points in {seconds:.1f} s, {steps} steps of {args.envs:,} environments x {len(METRICS)} metrics; "
              f"{100 * logging_s / seconds:.2f} % of the time inside log calls")
    return 0


if __name__ == "__main__":
    sys.exit(main())
