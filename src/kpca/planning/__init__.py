"""Which way a fit goes, why, and what it will take."""

from kpca.planning.memory import tile_budget
from kpca.planning.planner import approximation_needed, plan, plan_like
from kpca.planning.result import Plan
from kpca.planning.routes import Route, kernel_route, linear_route

__all__ = ["Plan", "Route", "approximation_needed", "kernel_route", "linear_route", "plan", "plan_like", "tile_budget"]
