"""Every exception of Millgate, explained where it is defined: the docstring is the default message."""

from __future__ import annotations

from millgate.hints import Any, Final


class MillgateError(Exception):
    """Something went wrong in Millgate."""

    #: Stable word for conditions, metrics and exit codes; never changed once released.
    reason: str = "Error"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


# --- what the caller wrote is wrong: refused before anything is stored ---------------------------


class InvalidInput(MillgateError, ValueError):
    """The request cannot be carried out as written; nothing was stored."""

    reason = "InvalidInput"


class InvalidSettings(InvalidInput):
    """A setting cannot be used; the message names the flag and the variable."""

    reason = "InvalidSettings"


class InvalidMessage(InvalidInput):
    """A message breaks a rule of the contract; the message says which field and how to mend it."""

    reason = "InvalidMessage"


class BadArguments(InvalidInput, TypeError):
    """The task's signature cannot take these arguments; nothing was sent."""

    reason = "BadArguments"


class NotEncodable(InvalidMessage, TypeError):
    """A value cannot be carried as JSON with tags; the message gives its path and type."""

    reason = "NotEncodable"


class PayloadTooLarge(InvalidMessage):
    """The encoded call is larger than its topic allows; send a reference instead of the data."""

    reason = "PayloadTooLarge"


class TopicUndeclared(InvalidMessage):
    """This queue takes work only for declared topics; declare the topic or use another."""

    reason = "TopicUndeclared"


class QueueFull(MillgateError):
    """The queue holds as many messages as it may; nothing of this call was stored, try again later."""

    reason = "QueueFull"


class NotDecodable(MillgateError):
    """A stored body or frame cannot be read back; it was written by something else, or cut."""

    reason = "Undecodable"


# --- the broker ----------------------------------------------------------------------------------


class BrokerError(MillgateError):
    """The broker answered with an error."""

    reason = "BrokerError"


class BrokerUnavailable(BrokerError):
    """The broker cannot be reached now; repeat later. The call may or may not have taken effect."""

    reason = "Unreachable"


class BrokerTimeout(BrokerUnavailable):
    """The broker did not answer within the call's deadline; the call may or may not have taken effect."""

    reason = "TimedOut"


class BrokerRefused(BrokerError):
    """The broker will go on refusing until somebody changes something; the message says what."""

    reason = "Refused"


class AuthFailed(BrokerRefused):
    """The broker refused the credentials, or the key of a local broker is another one."""

    reason = "AuthFailed"


class TLSFailed(BrokerRefused):
    """The TLS handshake failed: the certificate, the CA or the host name does not fit."""

    reason = "TLSFailed"


class PermissionMissing(BrokerRefused):
    """The user may not do what this verb needs; the message names the right to grant."""

    reason = "PermissionMissing"


class VersionUnsupported(BrokerRefused):
    """The server is too old for the guarantees of the contract."""

    reason = "VersionUnsupported"


class SchemaTooNew(BrokerRefused):
    """The stored schema was made by a newer Millgate; upgrade this program, it would corrupt the data."""

    reason = "SchemaTooNew"


class ForeignPeer(BrokerRefused):
    """Something else than a Millgate broker listens at this address."""

    reason = "ForeignPeer"


class UnsafeServer(BrokerRefused):
    """The server's configuration can lose tasks (eviction, read-only replica, …); see the message."""

    reason = "UnsafeServer"


class UnsupportedByBroker(BrokerRefused):
    """This broker does not offer the verb; the message names the verb."""

    reason = "UnsupportedByBroker"


# --- a run ---------------------------------------------------------------------------------------


class LeaseLost(MillgateError):
    """Another worker may have this message now; what this one reports about it changes nothing."""

    reason = "LeaseLost"


class UnknownTask(MillgateError):
    """The app of this worker has no task of that name; an older or newer worker may have it."""

    reason = "UnknownTask"


class AppNotLoaded(MillgateError):
    """The app cannot be imported, or what the path names is not an App."""

    reason = "AppNotLoaded"


# --- what a task raises, or finds raised in it, to steer its own run ------------------------------


class Retry(MillgateError):
    """Run this task again later."""

    reason = "Retry"

    def __init__(
        self,
        message: str | None = None,
        *,
        after: float | str | None = None,
        charge: bool = True,
    ) -> None:
        """`after`: seconds or "90s"; None: as the backoff says. Without `charge` no bound is counted down, which
        is for waiting, not for errors."""
        super().__init__(message)
        self.after = after
        self.charge = charge


class LockBusy(Retry):
    """Somebody else holds the lock; uncaught, the task runs again later, uncharged."""

    reason = "LockBusy"


class LockLost(MillgateError):
    """The lock ran out while it was held; another run may have it now."""

    reason = "LockLost"


class Reject(MillgateError):
    """Another attempt is pointless: to the dead letters now."""

    reason = "Rejected"


class SoftTimeout(BaseException):
    """The task ran past its soft timeout: clean up and end.

    No Exception, so that `except Exception` in a task does not swallow it.
    """


# --- waiting for a result ------------------------------------------------------------------------


class ResultTimeout(MillgateError, TimeoutError):
    """The result did not arrive in time; the task may still run."""

    reason = "ResultTimeout"


class ResultMissing(MillgateError, LookupError):
    """Nothing is known of this id: its result expired, was not kept, or it was never sent here."""

    reason = "ResultMissing"


class TaskFailed(MillgateError):
    """The task ended in the dead letters; `failure` has its class, message and traceback tail."""

    reason = "TaskFailed"

    def __init__(self, message: str | None = None, failure: Any = None, why: str = "") -> None:
        """`failure` is an outcome.Failure or None; `why` is the word under which the task was buried."""
        super().__init__(message)
        self.failure = failure
        self.why = why


class TaskCancelled(MillgateError):
    """The task was cancelled before it ended."""

    reason = "TaskCancelled"


#: Exit codes of every command; documented in docs/reference/exit-codes.md.
EXIT_OK: Final = 0
EXIT_FAILED: Final = 1  # the command ran and its answer is no
EXIT_USAGE: Final = 2  # flags or variables are wrong
EXIT_APP: Final = 3  # the app cannot be imported
EXIT_BROKER: Final = 4  # the broker refused, or could not be reached at start
EXIT_LIMITS: Final = 5  # a memory ceiling cannot hold what it must
