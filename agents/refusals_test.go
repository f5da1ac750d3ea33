package agents

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestRefusals(t *testing.T) {
	var rs Refusals
	for i := range 100 {
		rs.Add(Refusal{Host: fmt.Sprintf("h%d:443", i), Rule: fmt.Sprintf("h%d", i)})
	}
	if len(rs) != maxRefusals+1 || rs[maxRefusals] != (Refusal{Host: otherHosts, Times: 88}) {
		t.Errorf("%d hosts, the last %+v", len(rs), rs[len(rs)-1])
	}
	rs = nil
	for _, host := range []string{"b:443", "a:443", "b:443", strings.Repeat("x", 300)} {
		rs.Add(Refusal{Host: host, Rule: strings.TrimSuffix(host, ":443")})
	}
	rs = rs.Sorted()
	want := "refused b:443, 2 times; a:443; " + strings.Repeat("x", maxRefused) + "…"
	if rs.Words() != want || rs.Line() != `egress = ["b", "a"]` || Refusals(nil).Words()+Refusals(nil).Line() != "" {
		t.Errorf("%s\n%s", rs.Words(), rs.Line())
	}
	side := Refusals{
		{Host: "chatgpt.com:443", Rule: "chatgpt.com", Times: 2},
		{Host: "gb4w8c3ygj-default-sea.rum.aliyuncs.com:443", Times: 1}, // of qwen, on a real day
	}
	if both := slices.Concat(side, rs); len(side.Telling()) > 0 || !slices.Equal(both.Telling(), rs) {
		t.Errorf("%+v, %+v", side.Telling(), both.Telling())
	}
	if other := (Refusals{{Host: "xchatgpt.com:443"}}); len(other.Telling()) != 1 {
		t.Error("another host counts as a side call")
	}
	bad := Refusals{{Host: "a\nb\x1b[31m", Times: -1}}.Bounded()
	if strings.ContainsAny(bad[0].Host, "\n\x1b") || bad[0].Times != 1 {
		t.Errorf("%+v", bad)
	}
}
