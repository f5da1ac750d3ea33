package disinto_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// promises names the tests of what docs/security.md promises, from its top to its bottom. A sentence is quoted from its
// beginning, as far as it is unique; the tests are those that fail when it is no longer true, without a folder if they
// are in that of the test before. Every list item of the page must have a sentence here, except those that say what is
// not defended. Where no test is named, gap says why.
var promises = []struct{ sentence, tests, gap string }{
	// Secrets and files.
	{
		"**disinto writes no token to a command line, journal, error, status or URL.**",
		"supervisor/simtest.TestNoTokenAnywhere cmd/disinto.TestSoakEvil", "",
	},
	{"A program gets its token only in the environment.", "agents.TestEnviron cmd/disinto.TestAgentHasOrigin", ""},
	{
		"`disinto logs`, the API, the status and comments show it with every known secret replaced",
		"agents/process.TestSecretsAreHidden agents.TestHiddenValues TestRedactor supervisor.TestPostsNoSecret", "",
	},
	{
		"Only the supervisor's account can read secrets.env, the journal, the logs and the sockets.",
		"agents/process.TestLogIsAppendedAndPrivate supervisor.TestSocket agents/hire.TestFileWrite", "",
	},
	{"**An agent gets its own token and no other.**", "agents.TestEnvironKeepsSecrets TestCredentials", ""},
	{"`env_allow` brings one back, but never another agent's.", "agents.TestEnvironKeepsSecrets", ""},
	{"Agents of a local thread do not get the keys of paid APIs.", "agents.TestEnviron", ""},
	{
		"**What an agent writes is posted without secrets**",
		"agents/session.TestOutgoing TestFinder cmd/disinto.TestAgentPostsNoSecret", "",
	},
	{"a secret in a commit or its message stops the push", "cmd/disinto.TestAgentPushesNoSecret", ""},
	{"**A model's text closes no issue of others.**", "forge.TestDefuse cmd/disinto.TestAgentClosesOnlyItsOwn", ""},
	{"and in the title and message of the merge's commit.", "forge/forgejo.TestMergeMessage", ""},
	{"**A session's output cannot fill the disk**", "agents/process.TestLogIsBounded TestCutLog", ""},
	{"deletion follows no link that an agent planted", "supervisor/disk.TestRemoveStaysBelow", ""},
	{"first pushes the unpushed work of a workspace.", "cmd/disinto.TestAgentSaves", ""},
	{
		"**Files of the state directory are plain files**",
		"supervisor/journal.TestStartOpensPlainFilesOnly cmd/disinto.TestRunWithPipesInItsState", "",
	},
	{
		"8 GB of nothing cost seconds, and 16 MiB in `journal.corrupt`.",
		"supervisor/journal.TestStartWithGigabytesOfNothing TestJournalOfNULs", "",
	},
	{
		"New files are written beside the old ones",
		"supervisor/journal.TestCompactionWritesItsOwnFile agents/plainfile.TestReplace", "",
	},
	{
		"**A file that an agent may have replaced is opened only if it is a plain file**",
		"agents/plainfile.TestPlain supervisor/control.TestLogIsPlain cmd/disinto.TestAgentStaysInItsTree", "",
	},
	{"may be links, but not pipes, and have at most 1 MiB.", "cmd/disinto.TestOddFiles TestLinkedSecrets", ""},
	{"A secrets.env is refused if it belongs to an account", "cmd/disinto.TestSecretsOfAgents TestSecretsFile", ""},
	{
		"Each receipt has the hash of the previous one, and journal",
		"threads/audit.TestVerify supervisor/receipts.TestStore supervisor/simtest.TestReceipts", "",
	},
	{"Of names that an agent chooses, 64 are kept", "threads/audit.TestNames agents/process.TestNamesAreBounded", ""},
	{"A value that was not observed is unknown, not 0.", "threads/audit.TestUnknown", ""},
	{"**Answers are recorded without texts.**", "supervisor/simtest.TestAnswersOfADay", ""},

	// Sessions.
	{
		"It reaches no file, memory or process of another agent or of the supervisor",
		"agents/process.TestSandboxFiles TestSandboxSignals TestSandboxEvaded", "",
	},
	{
		"**An agent with an account of its own (`user` in its table) cannot reach**",
		"agents/process.TestRunsAsItsUser cmd/disinto.TestReach", "",
	},
	{
		"only the supervisor's memory and environment are protected (it is not dumpable).",
		"agents/process.TestSameUserCannotLookIntoSupervisor", "",
	},
	{"**A session cannot gain privileges**", "agents/process.TestProgramsWorld TestCapabilities", ""},
	{
		"Every process that it leaves behind is found and ended",
		"agents/process.TestEscapes TestCancelEndsWhatEscaped TestEndConvergesAgainstForks", "",
	},
	{"This takes at most half a second after the grace", "agents/process.TestShimStopped TestSweepWithinATick", ""},
	{
		"**Agents cannot suppress a stop.**",
		"agents/process/pid1.TestStopIsWithheld TestStopContinues TestStopTakesTooLong", "",
	},
	{"the init continues it, or starts the next one.", "agents/process/pid1.TestSupervisorDies", ""},
	{"`disinto exec` holds a TERM from its first instruction on", "agents/process/pid1.TestEarlyTERM", ""},
	{"**An agent cannot end or stop a [service]", "agents/process.TestAgentCannotEndService", ""},
	{"`disinto check` names agents that have a service's account.", "cmd/disinto.TestCheckServices", ""},
	{"A service gets no secret of the configuration", "agents.TestServiceEnviron cmd/disinto.TestServiceKeys", ""},
	{"`max_log` limits its output; its last line", "cmd/disinto.TestServicesOfPID1 supervisor/control.TestLastLine", ""},
	{"Only the status of the answer of `ready` counts", "cmd/disinto.TestAskReady TestAskHanging", ""},
	{
		"counted usage never shrinks, and impossible numbers are refused.",
		"agents.TestUsageBounded supervisor.TestAbsurdUsage agents/process.TestMeter cmd/disinto.TestSpendingAgent", "",
	},

	// Text of the forge.
	{
		"A command's arguments are templates over numbers and names that the forge's grammar limits",
		"agents.TestArgv TestCheckArgument", "",
	},
	{"The path of a workspace is made from the repository and the number.", "supervisor.TestWorkspaceName", ""},
	{"Prompts fence all text of the forge as data", "agents/session.TestFences TestQuoted", ""},
	{"A branch name in a prompt is one word", "agents/session.TestBranchLike TestWordLike", ""},
	{
		"**Text of strangers enters no prompt**",
		"agents/session.TestStrangersAreLeftOut cmd/disinto.TestAgentReadsWriters", "",
	},
	{"The prompt says how much was left out.", "agents/session.TestLeftOut", ""},
	{"without an answer, everyone else is a stranger.", "agents/session.TestUnknownWritersAreStrangers", ""},
	{"the person who adds the label vouches for the text", "agents/session.TestVouched", ""},
	{"find the setting in `$DISINTO_READERS`.", "supervisor/simtest.TestReaders", ""},
	{"**A branch under review configures nothing.**", "cmd/disinto.TestEvilBranch TestRealAgentsEvilBranch", ""},
	{"a role with `cli = \"acp\"` cannot review.", "threads/file.TestMistakes", ""},
	{"disinto's own git runs no hook, file monitor or diff program", "cmd/disinto.TestAgentHarmsItsClone", ""},
	{
		"counts as unreadable, and its items wait.",
		"forge/forgejo.TestMutations TestUnreadablePull TestB6_UnreadableDependencies", "",
	},
	{"What Go's library prints about a strange answer", "cmd/disinto.TestStandardLogGoesThroughTheLogger", ""},
	{
		"A panic ends in its goroutine.",
		"supervisor/simtest.TestPanicInTick TestPanicInScan TestPanicInCall TestSessionPanics", "",
	},
	{"also the reaper, whose panics are only in the log.", "agents/process.TestReaperOutlivesPanics", ""},
	{"The scan reads 64 kB of an issue's text.", "forge/forgejo.TestCutAnswer TestLongAnswers", ""},
	{"a page without new entries ends a list.", "forge/forgejo.TestEndlessPages TestEndlessList", ""},
	{"eight issues of 10 MB cost 3 MB of memory", "forge/forgejo.TestHugeIssues", ""},
	{"at most 200,000 references of a repository", "forge/forgejo.TestEverNewIssues TestManyReferences", ""},
	{"**Nor does it limit labels.**", "forge/forgejo.TestEndlessLabels TestCutAnswer cmd/disinto.TestSoakEvil", ""},

	// Reviews and merges.
	{
		"**A merge needs an approval** of exactly that commit",
		"threads.TestApprovalOf TestApprovalOfNothing TestStillMerges", "",
	},
	{"is neither reviewed nor merged (`base-changed`).", "threads.TestScripts TestEveryRuleCounts", ""},
	{"Before the merge the pull request is read again", "supervisor/simtest.TestMergeReadsAgain", ""},
	{"The merge request names the commit", "forge/forgejo.TestMergeHeadMoves", ""},
	{
		"**A reviewer sees what the merge does**",
		"agents/session/mergediff.TestCrissCross TestPlainChange TestRebaseDiffers", "",
	},
	{
		"the reviewer gets that too, and its comments count the lines of that",
		"agents/session/mergediff.TestTwoDifferences", "",
	},
	{
		"no `.gitattributes`, no `.gitmodules`, no configuration, no replaced object.",
		"agents/session/mergediff.TestAttributesHideNothing TestUserAttributesHideNothing TestSubmoduleIgnored " +
			"TestReplacedObject", "",
	},
	{"A text with a few NUL bytes is shown as text", "agents/session/mergediff.TestNUL", ""},
	{"Renames and modes are shown.", "agents/session/mergediff.TestRenameAndMode TestTypeChange", ""},
	{
		"and the verdict counts after the last.",
		"agents/session/mergediff.TestParts cmd/disinto.TestAgentReviewsInParts", "",
	},
	{
		"In a conflict there is no merge to show",
		"agents/session/mergediff.TestConflict cmd/disinto.TestAgentReviewsConflict", "",
	},
	{
		"**What no reviewer was shown waits for a person.**",
		"agents/session/mergediff.TestBinary TestHugeFile TestLockFile TestManyListed cmd/disinto.TestAgentReviewsTooBig " +
			"supervisor/simtest.TestTooBigToReview", "",
	},
	{"Up to `[forge] max_unseen` (1 MiB)", "agents/session/mergediff.TestBinary TestLFS", ""},
	{"**An approval stays when nothing but the base moves.**", "threads.TestApprovalOf", ""},
	{"then the supervisor brings the pull request up to date first", "supervisor/simtest.TestOutdatedPullsMerge", ""},
	{
		"**An agent's approval counts only from a review session**",
		"supervisor/simtest.TestApprovalOutside TestApprovalBeforeSession threads/ledger.TestApprovals", "",
	},
	{"these pull requests are reviewed again, and the log says why.", "supervisor/simtest.TestApprovalOutside", ""},
	{"No agent approves its own work", "supervisor.TestD6_AuthorNeverReviews threads.TestApprovalOf", ""},
	{"A person's request for changes stands", "threads.TestScripts", ""},
	{
		"**An agent cannot keep an issue in a loop by closing its pull request.**",
		"supervisor/simtest.TestReviewerCloses", "",
	},
	{
		"only the one handed in last is reviewed and reworked",
		"supervisor/simtest.TestPullRequestsAreFree TestUnaskedPullRequests threads/worlds.TestEvilAgents", "",
	},
	{"until a person asks for it with the label `review`", "supervisor/simtest.TestUnaskedPullRequests", ""},
	{"**Repeating a verdict climbs no ladder.**", "supervisor/simtest.TestLadder threads/ledger.TestSetbacks", ""},

	// People who steer.
	{"**Only accounts with write access steer.**", "forge/forgejo.TestWritersOf TestCommandersMayStillWrite", ""},
	{
		"If there is such a team, only the organisation's owners count",
		"forge/forgejo.TestWritersOf TestWritersOfFails", "",
	},
	{
		"are carried out only for accounts with write access",
		"supervisor/simtest.TestCommandsForOthers cmd/disinto.TestCommandsOnAForge", "",
	},
	{"A person's edited comment is not a command", "forge/forgejo.TestEditedCommentsAreText", ""},
	{
		"a command whose hook names its author as the sender counts at once, and one that differs from its hook only after " +
			"a confirmation",
		"supervisor/control.TestHookOfComment supervisor.TestCommandsAreProven TestHooksAreWaitedFor", "",
	},
	{
		"`retry`, which clears what stops agents, waits for a confirmation: the author's thumbs-up on the command's comment",
		"forge/forgejo.TestEditsWithinTheSecondAreConfirmed supervisor.TestCommandsAreConfirmed " +
			"cmd/disinto.TestCommandsOnAForge", "",
	},
	{"the last 1000 comments of hooks", "supervisor.TestWritten", ""},
	{"A command begins with `/disinto`", "forge.TestCommandIn", ""},
	{
		"Each command is carried out at most once",
		"supervisor/simtest.TestCommandOnce threads/ledger.TestCommandWorlds", "",
	},
	{
		"Its text reaches no program, except that of [`tell`]",
		"supervisor/simtest.TestTold TestCommandsInComments cmd/disinto.TestAgentTold TestToldThroughKill", "",
	},
	{
		"a session gets at most five texts of 4 kB.",
		"threads/ledger.TestTells supervisor/simtest.TestTold TestNotTold", "",
	},
	{"A reviewer is told nothing.", "supervisor/simtest.TestReviewIsNotTold cmd/disinto.TestAgentTold", ""},
	{
		"keeps 200 commands, and carries out ten of a person in a minute.",
		"supervisor/simtest.TestCommandsAreBounded threads/ledger.TestCommandsPerMinute TestHeardIsBounded " +
			"forge/forgejo.TestCommentsAreBounded", "",
	},
	{
		"`pause` needs write access to all repositories, or to the one that it names.",
		"supervisor/simtest.TestPauseInCommentWantsAllRepositories", "",
	},
	{
		"count from accounts with write access only, checked on the forge",
		"threads.TestSaid cmd/disinto.TestDialogueOnAForge", "",
	},
	{"an issue has three questions and five plans until a person's retry.", "threads/ledger.TestTooManyQuestions", ""},
	{
		"Of the comments below an issue with these labels, the supervisor keeps 200",
		"forge.TestRelevantIsBounded forge/forgejo.TestTalkOfStrangers TestTalkCosts", "",
	},
	{
		"An edited comment of the supervisor's account is neither a question nor a plan",
		"forge/forgejo.TestEditedPlansCountForNothing", "",
	},
	{
		"A pull request for an issue without an approved plan is neither reviewed nor merged",
		"supervisor/simtest.TestCodeInsteadOfPlan", "",
	},
	{
		"the supervisor files at most eight issues, and only what a person approved",
		"supervisor/simtest.TestSplit TestSplitRefused", "",
	},

	// Ways in.
	{
		"**The control API** is a unix socket, mode 0600, which answers only root and the supervisor's account.",
		"supervisor.TestSocket supervisor/control.TestListenUnix supervisor/control.TestRefusedPeer", "",
	},
	{"but a session in a sandbox always gets 403.", "supervisor/control.TestBarred agents/process.TestConfined", ""},
	{
		"Over TCP it requires a token of at least 16 characters",
		"supervisor.TestAPIOverTCP supervisor/control.TestGuard", "",
	},
	{"**A command with `--address`**", "cmd/disinto.TestAddress TestAddressToken TestAddressOfStranger", ""},
	{"Shell completion offers only words of letters, digits", "cmd/disinto.TestComplete", ""},
	{"**`disinto mcp`** is a client of the control API", "cmd/disinto.TestMCPTools TestMCPProgram", ""},
	{"none is read as a flag or a file name.", "cmd/disinto.TestMCPHostile", ""},
	{"A client's message is limited to 16 MiB", "cmd/disinto.TestMCPNoise TestMCPAnswers", ""},
	{
		"shows the forge's text, and never its markup**",
		"supervisor/web.TestHostileText TestVisible supervisor/web/browser.TestRoom", "",
	},
	{"A command also needs a secret of the page", "supervisor/web.TestForgedForms", ""},
	{"It checks ten wrong tokens a minute", "supervisor/web.TestWrongTokens", ""},
	{"A sign-in ends when the setting that allowed it changes", "supervisor/web.TestVisitorsEnd", ""},
	{"An authorisation request is valid once", "supervisor/web.TestForgeTrips TestForgeFailures TestProofs", ""},
	{"follows no redirect to another host, and is then dropped.", "supervisor/web.TestForgeHostile", ""},
	{"An agent's account is refused, whatever its rights", "supervisor/web.TestForgeSignIn TestForgeStranger", ""},
	{
		"**A web hook** needs the right signature",
		"supervisor/control.TestHook TestSlowHooks supervisor.TestHookPortServesHooksOnly", "",
	},

	// What leaves the machine.
	{"They have no title, text or token", "supervisor/metrics.TestWork TestDocs", ""},
	{"answers only `GET /metrics`, under a known host name", "supervisor.TestMetricsPort", ""},
	{"to four scrapes at a time.", "supervisor/metrics.TestScrapesAtOnce", ""},
	{"**Traces** go only to the collector", "supervisor/trace.TestTrace TestFromEnv", ""},
	{"agents do not get `OTEL_*HEADERS`.", "agents.TestCredentials", ""},
	{"are secrets**, like tokens", "threads/file.TestRecipientSecrets supervisor/notify.TestSendRefused", ""},
	{"A password is sent over plain SMTP only to this machine.", "supervisor/notify.TestSendMail TestSendMailRefused", ""},
	{"No redirect is followed, a message may take 15 seconds", "supervisor/notify.TestSendRefused TestSendSilent", ""},
	{"one short line in which nothing mentions people", "supervisor/notify.TestHostileText", ""},

	// Several hosts, and Nomad.
	{
		"**A claim** is made by exactly one of several supervisors",
		"forge/forgejo.TestClaimRefRace cmd/disinto.TestTwoSupervisors", "",
	},
	{"An unreadable claim holds the issue for a day.", "forge/forgejo.TestClaimRefUnread", ""},
	{"Whatever a claim says of itself", "forge/forgejo.TestClaimRefForEver", ""},
	{"is read by ssh with a fixed command line", "cmd/disinto.TestHostReader", ""},
	{"Its answer is data of at most 1 MiB", "supervisor/fleet.TestParse TestParseTames FuzzParse", ""},
	{
		"it makes the hub reassign issues of accounts in `[forge] bots`",
		"supervisor/simtest.TestHubDistrusts TestHubGives", "",
	},
	{"**A session starts once.**", "forge/forgejo.TestBeginOnce TestBeginReleased agents/nomad.TestSecondStart", ""},
	{"The journal records it before it is sent.", "supervisor/simtest.TestElsewhereKilledAnywhere", ""},
	{"nothing starts until the engine has answered", "supervisor/simtest.TestElsewhereUnknown TestElsewhereGone", ""},
	{"A session's log is fetched into a file", "supervisor/simtest.TestElsewhereLog", ""},
	{"**Sessions on Nomad** have each secret in a variable", "agents/nomad.TestSecrets TestJobStrict", ""},
	{"a dead job is not enough.", "agents/nomad.TestNodeGone", ""},
	{
		"The node deletes the order when it has read it",
		"agents/nomad.TestOrderDeleted TestDataDirHidden TestExposed TestKilledLog", "",
	},
	{"hidden from sandboxed sessions.", "supervisor.TestHidden agents/nomad.TestTLS", ""},

	// What may be spent.
	{"After `max_review_rounds`, or more reviews than rounds", "supervisor/simtest.TestCirclesEnd TestTooManyRounds", ""},
	{
		"No count hangs on anything that an agent can create or change",
		"supervisor/simtest.TestPullRequestsAreFree threads/ledger.TestStartClearsNothing threads/worlds.TestEvilAgents", "",
	},
	{"going back to a rejected head burns an attempt", "supervisor/simtest.TestCirclesEnd", ""},
	{
		"the item rests for ten minutes afterwards",
		"supervisor/simtest.TestCirclesEnd threads/ledger.TestDoubledIsBounded", "",
	},
	{
		"has `max_sessions_per_day` sessions a day together",
		"supervisor/simtest.TestOpenersDay threads/ledger.TestOpenedDay", "",
	},
	{
		"**A backend that is down** parks its thread",
		"supervisor/simtest.TestG2_Breaker threads/ledger.TestBreakerCounts", "",
	},
	{"it is held instead, and the item rests", "supervisor/simtest.TestOneAgentFindsNoBackend", ""},
	{"**A token that the forge rejects**", "supervisor/simtest.TestTokenRejected", ""},
	{"**A usage limit** parks its thread", "supervisor/simtest.TestG3_UsageLimit threads/ledger.TestLimitsInARow", ""},
	{"are reviewed `max_reviews_per_hour` times an hour", "supervisor/simtest.TestPeoplePushAgainAndAgain", ""},
	{"**A change during a session**", "supervisor/simtest.TestIssueGoesAway TestBlockerReopened", ""},
	{
		"**A repository that is archived or renamed**",
		"supervisor/simtest.TestArchived forge/forgejo.TestRepositoryOff TestRenamedElsewhere", "",
	},
	{"**An inference server's description of itself**", "agents/llama.TestLies TestElsewhere TestLookAtLittle", ""},
	{"disinto opens only a plain file whose name ends in `.gguf`", "agents/llama.TestKept", ""},
	{"Each file is then restricted to its owner (600)", "supervisor/saved.TestFolder TestFolderRefuses", ""},
	{"no tick and no claim waits for it.", "supervisor/simtest.TestServerHangsAndLies TestSavesFail", ""},
	{
		"**Unreviewed work** is limited in every repository",
		"threads.TestEveryRuleCounts threads/worlds.TestC5_F7_Worlds", "",
	},
	{"A test (`make soak`) runs", "cmd/disinto.TestSoakEvil", ""},

	// The sandbox.
	{
		"`disinto check` says what this kernel can restrict",
		"cmd/disinto.TestCheckSandbox agents/process.TestSandboxOld", "",
	},
	{"`sandbox = \"strict\"` starts nothing.", "agents/process.TestSandboxUnfiltered TestSandboxOld", ""},
	{"| reads and executes |", "agents/process.TestSandboxFiles TestAllowed TestSandboxLinkedProgram", ""},
	{"| reads and writes |", "agents/process.TestSandboxFiles", ""},
	{"| connects to |", "agents/process.TestSandboxNetwork TestSandboxEvaded", ""},
	{"| listens on |", "agents/process.TestSandboxServers", ""},
	{"| opens sockets |", "agents/process.TestSandboxEvaded agents/process/seccomp.TestFilter", ""},
	{"| signals, traces, limits |", "agents/process.TestSandboxSignals TestSandboxEvaded", ""},
	{"| never reaches |", "supervisor.TestHidden agents/process.TestSandboxFiles", ""},
	{"add to it, in `[factory]` or in a role.", "threads/file.TestSandboxKeys", ""},
	{"which `disinto init` writes for the role dev.", "cmd/disinto.TestInit agents/process.TestFreePorts", ""},
	{
		"**No session listens on a port that the configuration names**",
		"agents/process.TestSandboxServers TestSandboxEvaded", "",
	},
	{"gets credentials by plain HTTP on such a port", "cmd/disinto.TestCheckPorts", ""},
	{"`localhost` is one address, 127.0.0.1", "cmd/disinto.TestOneLocalhost", ""},
	{
		"everything else can be read and written, but no file can be created directly in it",
		"agents/process.TestSandboxFiles", "",
	},
	{"the outcome names it. With auditd", "agents/process.TestRefused", ""},
	{"**A session under a root supervisor**", "agents/process.TestSessionCapabilities", ""},
	{"`disinto check` names such roles.", "cmd/disinto.TestCheckRoot", ""},
	{"**Terminals** (`/dev/pts`)", "agents/process.TestSandboxTerminals", ""},
	{"**Unix sockets with a path**", "agents/process/landlock.TestSockets", ""},
	{"The sandbox does not cover UDP", "", "what stays open is listed, and nothing depends on it"},
	{"Programs for another architecture", "agents/process/seccomp.TestFilter", ""},
	{"Mounts are refused in it.", "agents/process.TestSandboxMounts", ""},

	// Egress by host name.
	{
		"**A session with `egress` has no socket that leaves this machine.**",
		"agents/process.TestEgressMachines TestEgressSockets agents/process/seccomp.TestLocal", "",
	},
	{
		"**All else goes through the session's own proxy**",
		"agents/process/gate.TestPlainHTTP TestStrangers TestTLS TestLocalAddresses " +
			"agents/egress.TestRules TestServerName supervisor.TestLogFollows agents/process.TestProxyPassword", "",
	},
	{"**Your own proxy**", "agents/process/gate.TestUpstream agents/process.TestEgressHidesProxies", ""},
	{
		"`setup_egress` ends before the agent starts and before anything is verified",
		"agents/process/gate.TestSetupOver agents/session.TestEndSetup threads/file.TestEgress", "",
	},
	{
		"**What was refused is counted**",
		"agents.TestRefusals agents/process.TestEgressOutlives supervisor.TestGaveUpAllows " +
			"agents/session.TestRefusedInPull", "",
	},
	{
		"It needs Linux 5.19",
		"agents/process.TestEgressAdvised TestEgressFailsClosed TestEgressMachines cmd/disinto.TestCheckSandbox " +
			"agents/nomad.TestTryEgress", "",
	},

	// A network of its own.
	{
		"each session of the role has a network namespace with loopback alone.",
		"agents/process.TestEgressMachines TestOwnNetwork TestOwnNetworkLeftover", "",
	},
	{"All ports of its localhost are its own", "agents/process.TestOwnNetwork TestOwnNetworkDatabase", ""},
	{"Unix sockets with a path are those of the machine", "", "what stays shared is listed, and nothing depends on it"},
	{"lead to this machine's: the numbers", "supervisor.TestSessionPorts agents/process.TestOwnNetwork", ""},
	{
		"both go on while the supervisor restarts",
		"agents/process.TestOwnNetworkOutlives cmd/disinto.TestEgressThroughUpgrade", "",
	},
	{
		"There sessions share the machine's network",
		"agents/process.TestNetworkShared TestEgressMachines cmd/disinto.TestCheckSandbox", "",
	},

	// Receipts.
	{"**Processes and hosts** are sampled", "agents/process.TestSeen TestConnections", ""},
	{"**Files** are checked only in a sandbox", "agents/process.TestSeenFiles TestSearchIsBounded", ""},
	{
		"On Nomad, the receipt has what the wrapper on the node saw.",
		"agents/nomad.TestExercise agents.TestSeenElsewhere", "",
	},
	{"changed, exchanged and removed receipts are detected.", "threads/audit.TestVerify TestVerifyTorn", ""},
	{
		"it names each session that",
		"threads/audit.TestComparePulls forge/forgejo.TestReceiptComments cmd/disinto.TestAuditVerifyForge", "",
	},
	{"`audit verify` believes the journal", "supervisor/receipts.TestPruneHides threads/audit.TestVerifyPruned", ""},
}

// Every promise is still on the page, its tests exist, and no item of the page is without one.
func TestPromises(t *testing.T) {
	text, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	there := testNames(t)
	page := strings.Join(strings.Fields(string(text)), " ")
	for _, p := range promises {
		if n := strings.Count(page, p.sentence); n != 1 {
			t.Errorf("docs/security.md has %d times %q, want 1: change it here too", n, p.sentence)
		}
		if (p.tests == "") == (p.gap == "") {
			t.Errorf("%q: want either tests or the reason why there is none", p.sentence)
		}
		folder := ""
		for test := range strings.FieldsSeq(p.tests) {
			name := test
			if i := strings.LastIndexByte(test, '.'); i > 0 {
				folder, name = test[:i], test[i+1:]
			}
			if !there[folder+"."+name] {
				t.Errorf("%q: there is no %s in %s", p.sentence, name, folder)
			}
		}
	}
	defended, rest, _ := strings.Cut(string(text), "## What is not defended")
	_, receipts, _ := strings.Cut(rest, "## Receipts")
	for _, item := range items(defended + receipts) {
		has := func(p struct{ sentence, tests, gap string }) bool { return strings.Contains(item, p.sentence) }
		if !slices.ContainsFunc(promises, has) {
			t.Errorf("no test is named for this item of docs/security.md: %.120s", item)
		}
	}
}

// items returns the list items of a page, each on one line.
func items(text string) (list []string) {
	for part := range strings.SplitSeq("\n"+text, "\n- ") {
		item, _, _ := strings.Cut(part, "\n\n")
		list = append(list, strings.Join(strings.Fields(item), " "))
	}
	return list[1:]
}
