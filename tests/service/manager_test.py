# SPDX-License-Identifier: Apache-2.0
"""The daemons under a service manager: ready, watchdog, kept rings, passed sockets, reload. Proof from the landing."""

import os
import signal
import socket
import subprocess
import sys

from pipeline import TALLYMAN, Pipeline, wait_for
from service_manager import ServiceManager

TRAINER = """
import sys, tallyman
run = tallyman.init(run_id=sys.argv[1], project="service")
for step in range(10):
    run.log({"loss": step}, step=step)
run.flush("disk")
print("durable", flush=True)
sys.stdin.readline()
for step in range(10, 1010):
    run.log({"loss": step}, step=step)
print("logged", flush=True)
sys.stdin.readline()
run.finish()
"""


class Trainer:
    def __init__(self, p, run):
        env = dict(os.environ, TALLYMAN_SOCKET=p.socket)
        self.process = subprocess.Popen([sys.executable, "-c", TRAINER, run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def until(self, word):
        assert self.process.stdout.readline().strip() == word

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.communicate()


def start_agent(p, manager, **more):
    p.agent = manager.start([TALLYMAN, "agent", "--config", p.agent_toml], p.log, **more)
    wait_for("READY", lambda: p.agent.poll() is not None or manager.seen("READY"))
    assert p.agent.poll() is None, p.logs()


def exact(p, run, points):
    last = []

    def proven():
        last[:] = p.reconcile(run, at="received")
        return last[1] != 3

    try:
        wait_for("proof", proven)
    except AssertionError:
        raise AssertionError(f"{last}\n{p.logs()}") from None
    report, code = last
    assert code == 0 and report["points"]["stored"] == points, (report, p.logs())


def ready_status_watchdog_stop(p, manager):
    start_agent(p, manager, watchdog_usec=2_000_000)
    assert p.status() is not None  # ready means: it answers
    wait_for("the watchdog is fed", lambda: len(manager.seen("WATCHDOG", "1")) >= 3)
    wait_for("a status", lambda: any("spool" in s for s in manager.seen("STATUS")))
    assert p.kill("agent", signal.SIGTERM) == 0
    assert manager.seen("STOPPING")


def trainer_and_agent_both_die(p, manager):
    """faults-shippers J: what was in a ring when trainer and agent were killed is read by the next agent."""
    start_agent(p, manager)
    trainer = Trainer(p, "kept")
    trainer.until("durable")
    assert len(manager.names()) >= 2, manager.messages
    os.kill(p.agent.pid, signal.SIGSTOP)  # from here on nothing leaves the ring
    trainer.go_on()
    trainer.until("logged")
    trainer.kill()
    p.kill("agent")
    start_agent(p, manager)
    exact(p, "kept", 1010)
    wait_for("the rings are given up", lambda: manager.names() == [])
    p.kill("agent", signal.SIGTERM)


def trainer_lives_through_a_restart(p, manager):
    start_agent(p, manager)
    trainer = Trainer(p, "lives")
    trainer.until("durable")
    p.kill("agent")
    trainer.go_on()
    trainer.until("logged")
    start_agent(p, manager)
    trainer.go_on()
    assert trainer.process.wait(timeout=60) == 0
    exact(p, "lives", 1010)
    p.kill("agent", signal.SIGTERM)


def passed_socket(p, manager):
    """The socket unit's socket is there before the agent: a trainer that dials early waits, it is not refused."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(p.socket)
        listener.listen(64)
        trainer = Trainer(p, "early")
        start_agent(p, manager, passed=[("attach", listener.fileno())])
        trainer.until("durable")
        trainer.go_on()
        trainer.until("logged")
        trainer.go_on()
        assert trainer.process.wait(timeout=60) == 0
        exact(p, "early", 1010)
        p.kill("agent", signal.SIGTERM)
        assert os.path.exists(p.socket), "a socket that was passed in is not the agent's to remove"
    os.unlink(p.socket)


def foreign_descriptors(p, manager):
    """What is no ring and no socket of ours is closed and named; the agent starts all the same."""
    with open("/dev/null", "rb") as null, open(p.agent_toml, "rb") as file:
        start_agent(p, manager, passed=[("ring-x", null.fileno()), ("ring-y", file.fileno()), ("other", file.fileno())])
    assert p.status() is not None
    p.kill("agent", signal.SIGTERM)
    assert "service.passed" in p.logs()


def edit(path, before, after):
    with open(path, encoding="ascii") as f:
        text = f.read()
    assert before in text
    with open(path, "w", encoding="ascii") as f:
        f.write(text.replace(before, after))


def reload_takes_all_or_nothing(p, manager):
    start_agent(p, manager)
    edit(p.agent_toml, "[spool]", "[log]\nlevel = \"wran\"\n[spool]")
    p.agent.send_signal(signal.SIGHUP)
    wait_for("refused", lambda: any("refused" in s for s in manager.seen("STATUS")))
    assert manager.seen("RELOADING") and "config.refused" in p.logs() and "log.level" in p.logs()
    edit(p.agent_toml, "wran", "debug")
    p.agent.send_signal(signal.SIGHUP)
    wait_for("reloaded", lambda: "key=log.level" in p.logs() and "need_restart=0" in p.logs())
    edit(p.agent_toml, p.socket, p.socket + "2")
    p.agent.send_signal(signal.SIGHUP)
    wait_for("a key that needs a restart is named", lambda: "need_restart=1" in p.logs())
    assert p.status() is not None
    edit(p.agent_toml, p.socket + "2", p.socket)
    p.kill("agent", signal.SIGTERM)


def token_changes_under_load(p, manager):
    """faults-shippers F: a rotated token is taken by SIGHUP on the receiver; sessions log in again, nothing is lost."""
    start_agent(p, manager)
    trainer = Trainer(p, "rotated")
    trainer.until("durable")
    with open(p.token, "w", encoding="ascii") as f:
        f.write("another-token-0123456789")
    p.receiver.send_signal(signal.SIGHUP)
    wait_for("sessions sent away", lambda: "receiver.secrets" in p.logs())
    trainer.go_on()
    trainer.until("logged")
    trainer.go_on()
    assert trainer.process.wait(timeout=60) == 0
    exact(p, "rotated", 1010)
    p.kill("agent", signal.SIGTERM)


def main():
    with Pipeline(sink="none") as p:
        manager = ServiceManager(p.path("notify.sock"))
        p.receiver = manager.start([TALLYMAN, "receiver", "--config", p.receiver_toml], p.log)
        wait_for("receiver READY", lambda: manager.seen("READY"))
        for case in (ready_status_watchdog_stop, trainer_and_agent_both_die, trainer_lives_through_a_restart, passed_socket,
                     foreign_descriptors, reload_takes_all_or_nothing, token_changes_under_load):
            print(case.__name__, flush=True)
            case(p, manager)
        assert p.kill("receiver", signal.SIGTERM) == 0


main()
