//! The end of the story: an environment with a policy, an image that may not run there, and who is told.

use std::io::Write;
use std::time::Duration;

use super::sample::{CACHE, NEXT_WEB, UNTESTED_WEB, WEB, short_image};
use super::screen::{Look, Word};
use super::steps::{Addresses, Story, path};
use super::table::{Table, compliance};
use super::{ACTION, CLUSTER, Ended, INVITED, STOREFRONT, UNIT_TESTS};
use crate::api::{Action, Kept};
use crate::domain::notification::Content;
use crate::domain::visible::Visible;

/// From one report of what the past left to the next.
const ROUNDS: Duration = Duration::from_mins(10);

impl<W: Write> Story<'_, W> {
    /// From an environment that is as it should be to one that is not, and back.
    pub(super) async fn judge(&mut self) -> Result<(), Ended> {
        let program = self.program.clone();
        self.screen.heading("8. Say what may run in the storefront, and who is told")?;
        self.screen.command(&[format!("cat {}", path(&self.files.bootstrap()))])?;
        let required = format!("{STOREFRONT} requires {UNIT_TESTS} of the flow {}", WEB.name);
        self.screen.came(format_args!("{required}; {CACHE} is allowed"), None)?;
        self.screen.command(&[format!("{program} list notifications")])?;
        let actions = self.client.notifications().await?.into_iter().map(|Kept { known, .. }| known);
        for Action { number, triggers, .. } in actions.filter(|action| action.number == ACTION) {
            let triggers = triggers.join(" and ");
            self.screen.came(format_args!("action {number} calls a webhook on {triggers}"), None)?;
        }
        self.screen.say("Here the webhook is the demo itself, which verifies each signature.")?;

        self.screen.heading("9. Report the storefront: the web pages, and the cache that they use")?;
        self.report(STOREFRONT, &self.files.storefront()).await?;
        self.hear().await?;
        self.screen.line("", &[])?;
        self.screen.command(&[format!("{program} get live-artifacts acme/web")])?;
        self.screen.table(&Table::verdicts(&self.look(&[WEB]).await?).lines())?;
        self.screen.line("", &[])?;
        self.screen.say(format_args!("{CLUSTER} has no policy, so nobody can say what may run there."))?;

        let untested = short_image(UNTESTED_WEB);
        self.screen.heading(&format!("10. Roll out {untested} there, which nobody tested"))?;
        self.report(STOREFRONT, &self.files.storefront_untested()).await?;
        self.hear().await?;

        self.screen.heading(&format!("11. Roll back to {}, which was tested", NEXT_WEB.short_image()))?;
        self.report(STOREFRONT, &self.files.storefront()).await?;
        self.hear().await
    }

    /// How to go on; then shows what the webhook is told, for as long as anybody looks.
    pub(super) async fn stay(&mut self, link: &str) -> Result<(), Ended> {
        let (id, Addresses { service, admin }) = (std::process::id(), self.addresses);
        self.screen.heading("Your turn: the service stays up until Ctrl-C")?;
        self.screen.say(format_args!(
            "Look at http://{service}/ui in a browser. This link signs in there, once, within the next {} minutes:",
            INVITED.as_secs() / 60
        ))?;
        self.screen.line("", &[])?;
        self.screen.line("  ", &[Word(Look::Bold, link.to_owned())])?;
        self.screen.line("", &[])?;
        self.screen.say("Another browser is signed in with the token itself:")?;
        self.screen.command(&[format!("cat {}", path(&self.files.token()))])?;
        self.screen.line("", &[])?;
        self.screen.say(
            "In another terminal, after the three exports above, roll out the untested image again; what the \
             webhook is told shows here:",
        )?;
        self.screen.command(&self.agent(STOREFRONT, &self.files.storefront_untested()))?;
        self.screen.say("Ask the service whether that arrived:")?;
        self.screen.command(&[format!("{} get action {ACTION}", self.program)])?;
        self.screen.say("Roll the cluster back to what ran at first, and look again:")?;
        self.screen.command(&self.agent(CLUSTER, &self.files.pods()))?;
        self.screen.say("Every operation of the service; its metrics; its end:")?;
        self.screen.command(&["curl -sS \"$SUPERCARGO_BASE_URL/api/v2/openapi.json\"".to_owned()])?;
        self.screen.command(&[format!("curl -sS http://{admin}/metrics")])?;
        self.screen.command(&[format!("kill {id}")])?;
        let mut rounds = tokio::time::interval(ROUNDS);
        loop {
            tokio::select! {
                told = self.inbox.next() => {
                    let Some(content) = told else { return Ok(()) };
                    self.screen.line("", &[])?;
                    self.told(&content)?;
                }
                _ = rounds.tick() => match self.go_round().await {
                    Err(Ended::Failed(_)) => self.screen.say("Not all could be reported: it is tried again.")?,
                    went => went?,
                },
            }
        }
    }

    /// Reports what the past left, as it is.
    async fn go_round(&self) -> Result<(), Ended> {
        for environment in &self.heard {
            self.send(environment, &self.files.of(environment)).await?;
        }
        Ok(())
    }

    /// Waits for the webhook to be told, and shows what.
    async fn hear(&mut self) -> Result<(), Ended> {
        let content = self.inbox.soon().await?;
        self.told(&content)
    }

    fn told(&mut self, content: &Content) -> Result<(), Ended> {
        let said = format!("notification received, signature verified: {} is", Visible(&content.environment));
        self.screen.came(said, Some(compliance(&content.compliance)))?;
        Ok(self.screen.table(&Table::told(content).lines())?)
    }
}
