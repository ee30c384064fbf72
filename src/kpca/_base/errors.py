"""The errors a user can cause or meet, one sentence each: what must hold, what arrived, what to do."""


class InputError(ValueError):
    """Data or a parameter cannot be used; the message says why and what to do instead."""


class Cancelled(RuntimeError):
    """A progress callback asked the fit to stop; nothing was stored on the estimator."""
