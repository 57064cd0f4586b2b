//! Names that an unknown name may have meant.

use strsim::jaro;

use crate::escape::Escaped;

/// Similarity of clap's suggestions for options.
const SIMILAR: f64 = 0.7;

/// Further from the best than this, a name only distracts from it.
const AS_GOOD: f64 = 0.1;

/// The nearest of `candidates` first, at most three; none if none is similar.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let name = name.to_lowercase();
    let candidates =
        candidates.into_iter().map(|candidate| (jaro(&name, &candidate.to_lowercase()), candidate));
    let mut similar: Vec<_> = candidates.filter(|(similarity, _)| *similarity > SIMILAR).collect();
    similar.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let best = similar.first().map_or(0.0, |(similarity, _)| *similarity);
    let as_good = similar.into_iter().take_while(|(similarity, _)| *similarity >= best - AS_GOOD);
    as_good.map(|(_, candidate)| candidate).take(3).collect()
}

/// The end of a message about an unknown name: `; did you mean prod or prod-eu?`, or nothing.
#[must_use]
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let nearest: Vec<_> =
        nearest(name, candidates).into_iter().map(|name| Escaped(name).to_string()).collect();
    match &*nearest {
        [] => String::new(),
        [only] => format!("; did you mean {only}?"),
        [first @ .., last] => format!("; did you mean {} or {last}?", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_name_suggests_the_nearest_names() {
        for (name, candidates, expected) in [
            ("prdo", &["staging", "prod", "dev"][..], "; did you mean prod?"),
            ("prd", &["prod", "production"], "; did you mean prod?"),
            ("PROD", &["prod"], "; did you mean prod?"),
            ("prod", &["staging", "production"], "; did you mean production?"),
            ("prod-uk", &["prod-us", "prod-eu", "dev"], "; did you mean prod-eu or prod-us?"),
            ("web1", &["web5", "web4", "web3", "web2"], "; did you mean web2, web3 or web4?"),
            ("payments", &["cart", "web"], ""),
            ("prod", &[], ""),
        ] {
            assert_eq!(did_you_mean(name, candidates.iter().copied()), expected, "{name} of {candidates:?}");
        }
    }
}
