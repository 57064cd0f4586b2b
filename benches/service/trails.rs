//! Attestations and reports over the number of trails that attest the artifact. One policy requires the attestation, the
//! other one that all trails of the artifact comply.

use super::arguments::option;
use super::budgets::Budgets;
use super::cluster::{environments_with_policy, report};
use super::database::{Engine, seed_trails};
use super::figures::interleave;
use super::server::{Client, Organization, Server};

const ATTESTATION: &str = "attestation";
const COMPLIANCE: &str = "compliance";

/// Trails of each artifact. The last number can be chosen.
const TRAILS: [u64; 3] = [1, 30, 1_000];

/// Requests per number of trails.
const SAMPLES: usize = 200;

/// An environment that runs one of two artifacts in turn.
struct Environment {
    name: String,
    trails: u64,
    artifact: u64,
}

pub(super) fn measure(engine: &Engine, budgets: &mut Budgets) {
    let trails = [TRAILS[0], TRAILS[1], option("trails").unwrap_or(TRAILS[2])];
    let names = trails.map(|trails| format!("trails-{trails}"));
    let (database, with_policy) = (engine.create(), environments_with_policy(names.clone()));
    let organizations = [
        Organization::new(ATTESTATION, with_policy),
        Organization::new(COMPLIANCE, environments_with_compliance(&names)),
    ];
    let server = Server::start(&database, &organizations);
    for (place, organization) in (1..).zip([ATTESTATION, COMPLIANCE]) {
        let environments = (1..).zip(trails).zip(&names).map(|((n, trails), name)| {
            let artifact = 100 * place + 2 * n;
            seed_trails(
                &database,
                organization,
                1_000_000 * artifact,
                2 * trails,
                &format!("{artifact} + i % 2"),
            );
            Environment { name: name.clone(), trails, artifact }
        });
        let mut environments: Vec<_> = environments.collect();
        let mut client = server.connect(organization);
        let attested = interleave(&mut environments, SAMPLES, |environment, n| {
            if n == 0 {
                environment.report(&mut client, 0);
            }
            client.attest(true, [environment.artifact]).expect(201)
        });
        let reported = interleave(&mut environments, SAMPLES, |environment, n| {
            environment.report(&mut client, 1 + n as u64)
        });
        for (request, figures) in [("attestation", attested), ("changed report", reported)] {
            for (environment, figures) in environments.iter().zip(&figures) {
                let label = format!("{:>6} trails, policy of {organization}, {request}", environment.trails);
                figures.print(&label, "");
            }
            if organization == ATTESTATION {
                let what = format!("serve, {request}, 30 trails of the artifact, {}", engine.name());
                budgets.at_most(&what, figures[1].median / figures[0].median, 1.1, "times one trail");
            }
        }
    }
}

impl Environment {
    /// Reports the first artifact if the number is even, or the second one. Returns milliseconds.
    fn report(&self, client: &mut Client, number: u64) -> f64 {
        client.report(&self.name, report([self.artifact + number % 2])).expect(201)
    }
}

/// Settings of environments that require compliant trails.
fn environments_with_compliance(names: &[String]) -> String {
    let environments =
        names.iter().map(|name| format!("      - {{name: {name}, silentAfter: 7d, policies: [trails]}}\n"));
    format!(
        "    policies:
      - name: trails
        text: |
          _schema: https://example.com/schemas/policy/environment/v1
          artifacts:
            trail-compliance: {{required: true}}
    environments:
{}",
        environments.collect::<String>()
    )
}
