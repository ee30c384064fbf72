"""Fifty genes that components of kernel PCA are most sensitive to tell two leukaemias apart, without any labels."""

from benchmarks.bench_explain import genes


def test_important_genes_separate_classes_better_than_all_and_than_random_ones(data_folder, monkeypatch):
    monkeypatch.setenv("KPCA_DATA", str(data_folder))
    rates = genes(check=True)["accuracies"]
    everything = next(rate for name, rate in rates.items() if name.startswith("all"))
    random = next(rate for name, rate in rates.items() if "random" in name)
    important = [rate for name, rate in rates.items() if "importance" in name]
    assert len(important) == 2
    for left_out, new in important:
        assert left_out >= everything[0] and left_out > random[0] + 0.1
        assert new > everything[1] + 0.1 and new > random[1] + 0.2
