"""What was chosen, and why: kernel, number of components, the way of the solution."""

from __future__ import annotations

from typing import Any

from kpca.incremental import IncrementalKernelPCA
from kpca.report.formula import formula, meaning
from kpca.report.markup import Markup, bullets, joined, paragraph, tag
from kpca.report.material import Material, Refusal, attempt
from kpca.report.sections.base import Section
from kpca.report.words import count, percent, sentence


def choice(material: Material) -> Section:
    """Return the section on the model."""
    model = material.model
    parts: list[Markup] = [bullets(sentence(text) for text in material.subject.chosen)]
    parts += [
        paragraph("The kernel, which says how alike two rows x and y are:"),
        tag("p", formula(model.kernel_), class_="formula"),
        paragraph(meaning(model.kernel_), _as_seen() if material.subject.data.treated else ""),
        paragraph(*_components(model)),
        paragraph(*_solution(model)),
    ]
    return Section("choice", "What was chosen, and why", joined(parts))


def _as_seen() -> str:
    return " Rows are meant as the model sees them, after the treatment above."


def _components(model: Any) -> list[str]:
    asked, k = model.n_components, int(model.n_components_)
    text = [f"The model has {count(k, 'component')}"]
    if isinstance(asked, str):
        return [f"{text[0]}, a number that was found out from the data. ", _reason(model)]
    if asked is None:
        return [f"{text[0]}: all that have any variance."]
    if isinstance(asked, float) and asked < 1:
        return [f"{text[0]}: as many as it takes to hold {percent(asked)} of the variance."]
    if asked > k:
        return [f"{text[0]}: {asked:,} were asked for, and there are no more."]
    return [f"{text[0]}, as asked for."]


def _reason(model: Any) -> str:
    return sentence(str(getattr(model, "n_components_reason_", "")))


def _solution(model: Any) -> list[str]:
    if isinstance(model, IncrementalKernelPCA):
        return [
            f"The rows were read batch by batch: {count(model.n_samples_seen_, 'row')} in "
            f"{count(model.batches_seen_, 'batch', 'batches')}, of which the mean and the scatter of "
            f"{count(model.feature_map_.rank, 'feature')} are kept."
        ]
    plan = attempt(lambda: model.plan_)
    features = _features(model)
    if isinstance(plan, Refusal):
        return [f"How it was computed: {features}." if features else f"The plan cannot be shown: {plan.sentence}"]
    route = str(plan).splitlines()[0].partition(", ")[2].rstrip(".")
    return [f"How it was computed: {features or route}. Why: {sentence(plan.reason)}"]


def _features(model: Any) -> str:
    """Return in words what stands for the kernel, empty if nothing does."""
    feature_map = getattr(model, "feature_map_", None)
    if feature_map is None:
        return ""
    landmarks = getattr(feature_map, "landmarks", None)
    if landmarks is not None:
        return f"each row was compared with {count(landmarks.shape[0], 'landmark')}, rows chosen to stand for all"
    return f"each row was replaced by {count(feature_map.rank, 'random feature')}, whose products stand for the kernel"
