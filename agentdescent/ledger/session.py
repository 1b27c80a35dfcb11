"""One run's stay in a ledger: it comes in and puts things in order, works, and leaves it tidy."""

import json
from pathlib import Path

from agentdescent.errors import LedgerRefused
from agentdescent.ledger import owners
from agentdescent.ledger.failures import FULL, Damaged, kinds
from agentdescent.ledger.faults import Step
from agentdescent.ledger.objects import Objects
from agentdescent.ledger.owners import Claim, Owner
from agentdescent.ledger.packing import FEW_PACKS, MANY_LOOSE, MANY_PACKS, TOO_MANY_LOOSE, Packer
from agentdescent.ledger.recovery import Recovery
from agentdescent.ledger.repository import open_repository
from agentdescent.ledger.store import Store
from agentdescent.ledger.system import boot_id, give_back_memory, replace
from agentdescent.ledger.terms import Terms

_STATE = "agentdescent.state"


class Session:
    """The ledger at `path`, open and in order. For one thread at a time.

    Attributes:
        store: Its commits.
        dead: The runs that had died over it.
    """

    def __init__(self, path: Path, terms: Terms, *, held: bool, writable: bool = True) -> None:
        """Come in.

        Args:
            path: The ledger; `repository.prepare` has recognised it.
            terms: The terms of the run.
            held: The ledger's lock is held, so nobody else writes.
            writable: Something may be changed there.

        Raises:
            LedgerRefused: If it must be exclusive and is not; nothing was changed.
            Damaged: If nothing intact is left, or nothing may be changed; nothing was.
        """
        self._path, self._git_dir, self._terms = path, path / ".git", terms
        self._writable = writable
        self._claim: Claim | None = None
        self.dead: tuple[Owner, ...] = ()
        self._warnings: list[str] = []
        repository = open_repository(self._git_dir)
        self._objects = Objects(self._git_dir, repository.odb)
        self._packer = Packer(repository, self._git_dir, self._objects, terms.faults)
        self.store: Store = Store(repository, path, terms)
        try:
            self._enter(held=held)
        except BaseException:
            repository.free()
            if self._claim:
                self._claim.die()
            raise

    @property
    def is_crowded(self) -> bool:
        """True when it is better to pack now than to go on."""
        return self.store.n_loose > TOO_MANY_LOOSE

    def is_untidy(self) -> bool:
        """True when there is something to pack before leaving."""
        return (
            self._writable
            and self._terms.syncs
            and (self.store.n_loose > MANY_LOOSE or self._packer.n_packs > FEW_PACKS)
        )

    def take_warnings(self) -> list[str]:
        """What the user has to hear of, once."""
        taken, self._warnings = self._warnings, []
        return [*taken, *self.store.take_warnings()]

    def live(self) -> tuple[Owner, ...]:
        """The other runs that have the ledger open now."""
        return owners.survey(self._git_dir, self._terms.run).live

    def alive(self) -> set[str]:
        """The ids of the other runs that may still be at work."""
        others = owners.survey(self._git_dir, self._terms.run)
        return {owner.run for owner in others.live + others.unknown}

    def own(self) -> None:
        """Make sure that this run's death would be noticed; called before anything is written."""
        if self._claim is None:
            self._claim = Claim(self._git_dir, self._terms.run, synced=self._terms.syncs)

    def pack(self, *, leaving: bool = False) -> None:
        """Pack loose objects, and fold packs if nobody else needs them; under the lock.

        What cannot be packed stays as it is, which harms nobody, and a warning says why.
        """
        others = owners.survey(self._git_dir, self._terms.run)
        try:
            if self.store.n_loose > MANY_LOOSE:
                self._packer.pack()
            if not (others.live or others.unknown):
                self._packer.fold(FEW_PACKS if leaving else MANY_PACKS)
        except kinds() as error:
            self._warnings.append(
                f"the objects of the git ledger in {self._path} could not be packed ({error}): it "
                "stays as it is, with many files"
            )
        finally:
            self.store.n_loose = 0
            give_back_memory()

    def leave(self) -> None:
        """Sync what has to be, remove the traces of this run, and close everything.

        If that is impossible a warning says so, and the next run checks everything, as after a
        death.
        """
        try:
            self.store.close()
            if self._claim:
                self._claim.release()
            self._terms.faults.reach(Step.LEFT)
        except kinds() as error:
            if self._git_dir.exists():
                self._warnings.append(
                    f"the git ledger in {self._path} could not be closed in order ({error}): what "
                    "was committed last may not survive a power failure"
                )
        finally:
            if self._claim:
                self._claim.die()

    def _enter(self, *, held: bool) -> None:
        found = owners.survey(self._git_dir)
        if self._terms.exclusive and (found.live or found.unknown):
            raise self._refusal((found.live + found.unknown)[0])
        recovery = Recovery(self._git_dir, self._objects, self._terms.faults)
        if not self._writable:
            recovery.check()
            return
        self._warnings += recovery.unlock(at_once=held and bool(found.dead))
        recovery.sweep()
        if not found.is_clean or self._is_rebooted() or not _is_sound(recovery):
            self._warnings += recovery.repair()
        self._settle_in(found.dead)

    def _settle_in(self, dead: tuple[Owner, ...]) -> None:
        self.dead = dead
        owners.bury(self._git_dir, dead)
        self._terms.faults.reach(Step.BURIED)
        try:
            self.own()
            self._remember_boot()
        except OSError as error:
            if error.errno not in FULL:  # a full disk can be read; `own` is tried again to write
                raise
        self._terms.faults.reach(Step.OWNED)
        self.store.n_loose = sum(1 for _ in self._objects.loose())
        if self.store.n_loose > MANY_LOOSE or self._packer.n_packs > MANY_PACKS:
            self.pack()

    def _is_rebooted(self) -> bool:
        """Whether the machine may have lost power since a run came in, or it is another machine."""
        try:
            return json.loads((self._git_dir / _STATE).read_bytes())["boot"] != boot_id()
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return True

    def _remember_boot(self) -> None:
        if self._terms.syncs and self._is_rebooted():
            state = f"{json.dumps({'boot': boot_id()})}\n"
            replace(self._git_dir / _STATE, state.encode())

    def _refusal(self, other: Owner) -> LedgerRefused:
        return LedgerRefused(
            f"{other} has it open; nothing was changed",
            operation="open",
            repo_path=str(self._path),
            hint="wait for its end, use another repo_path, or do not ask for exclusive=True",
        )


def _is_sound(recovery: Recovery) -> bool:
    try:
        recovery.check()
    except Damaged:
        return False
    return True
