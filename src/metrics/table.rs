//! Metrics with labels, resolved once: counting is an index and an atomic add.

use std::marker::PhantomData;
use std::ops::Index;

use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::registry::{Metric, Registry};

use super::labels::Label;

/// A metric per value of a label, all of them there from the start.
#[derive(Debug)]
pub struct Per<L, M> {
    each: Box<[M]>,
    label: PhantomData<L>,
}

impl<L: Label, M: Clone + TypedMetric + Metric> Per<L, M> {
    pub(super) fn new<C>(registry: &mut Registry, name: &str, help: &str, make: C) -> Self
    where
        C: MetricConstructor<M> + Clone + Send + Sync + std::fmt::Debug + 'static,
    {
        let family = Family::<[(&str, &str); 1], M, C>::new_with_constructor(make);
        let each = L::ALL.iter().map(|label| family.get_or_create_owned(&[(L::NAME, label.word())]));
        let each = each.collect();
        registry.register(name, help, family);
        Per { each, label: PhantomData }
    }
}

impl<L: Label, M> Index<L> for Per<L, M> {
    type Output = M;

    fn index(&self, label: L) -> &M {
        &self.each[label.index()]
    }
}

/// A metric per pair of values of two labels, all of them there from the start.
#[derive(Debug)]
pub struct PerPair<A, B, M> {
    each: Box<[M]>,
    labels: PhantomData<(A, B)>,
}

impl<A: Label, B: Label, M: Clone + TypedMetric + Metric + Default> PerPair<A, B, M> {
    pub(super) fn new(registry: &mut Registry, name: &str, help: &str) -> Self {
        let family = Family::<[(&str, &str); 2], M>::default();
        let pairs = A::ALL.iter().flat_map(|a| B::ALL.iter().map(move |b| (a, b)));
        let each = pairs
            .map(|(a, b)| family.get_or_create_owned(&[(A::NAME, a.word()), (B::NAME, b.word())]))
            .collect();
        registry.register(name, help, family);
        PerPair { each, labels: PhantomData }
    }
}

impl<A: Label, B: Label, M> Index<(A, B)> for PerPair<A, B, M> {
    type Output = M;

    fn index(&self, (a, b): (A, B)) -> &M {
        &self.each[a.index() * B::ALL.len() + b.index()]
    }
}

/// How the text formats name a kind of metric.
pub(super) fn is_counter(kind: &str) -> bool {
    kind == MetricType::Counter.as_str()
}
