//! The end of the story: an environment with a policy, an image that may not run there, and who is told.

use std::convert::Infallible;
use std::io::Write;
use std::time::Duration;

use tokio::time::timeout;

use super::sample::{CACHE, NEXT_WEB, UNTESTED_WEB, WEB, short_image};
use super::steps::{Story, path};
use super::table::{Table, compliance};
use super::{ACTION, CLUSTER, DemoError, Ended, STOREFRONT, UNIT_TESTS};
use crate::domain::notification::Content;

/// How long a notification may take.
const PATIENCE: Duration = Duration::from_secs(10);

impl<W: Write> Story<'_, W> {
    /// From an environment that is as it should be to one that is not, and back.
    pub(super) async fn judge(&mut self) -> Result<(), Ended> {
        let program = self.program.clone();
        self.screen.heading("8. Hold an environment to a policy: in the storefront, all is tested")?;
        self.screen.command(&[format!("cat {}", path(&self.files.bootstrap()))])?;
        let required = format!("{STOREFRONT} requires the {UNIT_TESTS} of the flow {}", WEB.name);
        self.screen.came(format_args!("{required}; {CACHE}, which others build, is allowed"), None)?;
        self.screen.command(&[format!("{program} list notifications")])?;
        for action in self.client.notifications().await? {
            let triggers = action.known.triggers.join(" and ");
            self.screen.came(format_args!("{triggers} go to a webhook, which is this demo"), None)?;
        }
        self.report(STOREFRONT, &self.files.storefront()).await?;
        self.hear().await?;
        self.screen.line("", &[])?;
        self.screen.command(&[format!("{program} get live-artifacts acme/web")])?;
        self.screen.table(&Table::verdicts(&self.look(&[WEB]).await?).lines())?;
        self.screen.line("", &[])?;
        self.screen.say(format_args!("{CLUSTER} has no policy, so nobody can say what may run there."))?;

        let untested = short_image(UNTESTED_WEB);
        self.screen.heading(&format!("9. Roll out {untested} there, which nobody tested"))?;
        self.report(STOREFRONT, &self.files.storefront_untested()).await?;
        self.hear().await?;

        self.screen.heading(&format!("10. Roll back to {}", NEXT_WEB.short_image()))?;
        self.report(STOREFRONT, &self.files.storefront()).await?;
        self.hear().await
    }

    /// How to go on; then shows what the webhook is told, for as long as anybody looks.
    pub(super) async fn stay(&mut self) -> Result<Infallible, Ended> {
        let (id, admin) = (std::process::id(), self.addresses.admin);
        self.screen.heading("Your turn: the service stays up until Ctrl-C")?;
        self.screen.say("In another terminal, after the three exports above, roll out the untested image again: what the webhook is told shows here. Then whether the service knows that it arrived:")?;
        self.screen.command(&self.agent(STOREFRONT, &self.files.storefront_untested()))?;
        self.screen.command(&[format!("{} get action {ACTION}", self.program)])?;
        self.screen.say("Roll the cluster back to what ran at first, and look again:")?;
        self.screen.command(&self.agent(CLUSTER, &self.files.pods()))?;
        self.screen.say("Every operation of the service; its metrics; its end:")?;
        self.screen.command(&["curl -sS \"$SUPERCARGO_BASE_URL/api/v2/openapi.json\"".to_owned()])?;
        self.screen.command(&[format!("curl -sS http://{admin}/metrics")])?;
        self.screen.command(&[format!("kill {id}")])?;
        loop {
            let content = self.inbox.next().await.ok_or(DemoError::Untold(PATIENCE))?;
            self.screen.line("", &[])?;
            self.told(&content)?;
        }
    }

    /// Waits for the webhook to be told, and shows what.
    async fn hear(&mut self) -> Result<(), Ended> {
        let content = timeout(PATIENCE, self.inbox.next()).await.ok().flatten();
        self.told(&content.ok_or(DemoError::Untold(PATIENCE))?)
    }

    fn told(&mut self, content: &Content) -> Result<(), Ended> {
        let said = format!("the webhook is told, signed and verified: {} is", content.environment);
        self.screen.came(said, Some(compliance(&content.compliance)))?;
        Ok(self.screen.table(&Table::told(content).lines())?)
    }
}
