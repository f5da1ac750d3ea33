package agents

// CLI is an agent CLI that the built-in program can run. Its adapter is in agents/session.
type CLI struct {
	Name    string
	Package string // of npm
	Priced  bool   // it reports what its work costs, and not only tokens
	// Opening is the size of its system prompt and its tools, which it sends before our first word, in tokens of four
	// bytes, as measured on local threads; 0 without a measurement.
	Opening int
	// Hosts are those of its maker's models and of the sign-in there.
	Hosts []string
}

// CLIs are all agent CLIs, sorted by name.
var CLIs = []CLI{
	{
		"claude", "@anthropic-ai/claude-code", true, 1_000,
		[]string{"api.anthropic.com", "claude.ai", "console.anthropic.com", "platform.claude.com"},
	},
	{"codex", "@openai/codex", false, 10_000, []string{"api.openai.com", "auth.openai.com", "chatgpt.com"}},
	{"opencode", "opencode-ai", true, 8_000, []string{"api.anthropic.com", "api.openai.com", "models.dev", "opencode.ai"}},
	{"qwen", "@qwen-code/qwen-code", false, 9_000, []string{"chat.qwen.ai", "dashscope.aliyuncs.com", "portal.qwen.ai"}},
}

// ACP is the CLI of a role whose agent speaks the Agent Client Protocol. It is none of CLIs, because the role names the
// program.
const ACP = "acp"

// CLINames returns the names of CLIs.
func CLINames() []string {
	names := make([]string, len(CLIs))
	for i := range CLIs {
		names[i] = CLIs[i].Name
	}
	return names
}

// FindCLI finds an agent CLI by name; nil when there is none.
func FindCLI(name string) *CLI {
	for i := range CLIs {
		if CLIs[i].Name == name {
			return &CLIs[i]
		}
	}
	return nil
}
