// Tests of search.ts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { exampleView } from "../layout/example";
import { hits, search, searchIndex, sitePattern } from "./search";

const fits = (pattern: string, site: string): boolean => sitePattern(pattern).test(site);

test("one star is one path part, two are any number", () => {
  assert.ok(fits("encoder.*.attn/softmax", "encoder.2.attn/softmax"));
  assert.ok(!fits("encoder.*/softmax", "encoder.2.attn/softmax"));
  assert.ok(fits("encoder.**/softmax", "encoder.2.attn/softmax"));
  assert.ok(fits("**/softmax", "encoder.2.attn/softmax"));
  assert.ok(fits("**.attn", "attn") && fits("**.attn", "encoder.2.attn"));
});

test("a pattern that ends in two stars reaches into the ops, any other does not", () => {
  assert.ok(fits("encoder.**", "encoder.2.attn/softmax:3") && fits("encoder.**", "encoder.2"));
  assert.ok(!fits("encoder.*", "encoder.2.attn") && !fits("encoder.*", "encoder.2/add"));
});

test("what a pattern leaves open covers all ordinals and passes", () => {
  assert.ok(fits("h.*/add", "h.0/add.2") && fits("h.*/add", "h.0/add:4"));
  assert.ok(fits("h.*/add.2", "h.0/add.2") && !fits("h.*/add.2", "h.0/add.1"));
  assert.ok(!fits("h.*/add:2", "h.0/add:3"));
  assert.ok(fits("h.*/soft*", "h.0/softmax"));
});

test("signs that mean something in regular expressions mean nothing in a site", () => {
  assert.ok(fits("a+b.*", "a+b.0") && !fits("a+b.*", "aab.0") && !fits("a.*", "axb"));
});

const view = exampleView(24);
const index = searchIndex(view);

test("words are looked for in labels, functions, addresses and classes", () => {
  const softmax = search(index, "SoftMax");
  assert.equal(softmax.nodes.length, 24);
  assert.equal(search(index, "block").groups.length, 24);
  assert.deepEqual(search(index, "h.7").groups.map((group) => view.groups.label[group]), ["h.7", "h.7.attn"]);
  assert.equal(search(index, "softmax relu").nodes.length, 0);
  assert.deepEqual(search(index, "  "), { nodes: [], groups: [] });
});

test("a site is found as it representatives, and by its pattern", () => {
  assert.equal(search(index, "h.*.attn/softmax").nodes.length, 24);
  assert.equal(search(index, "h.3.attn/softmax").nodes.length, 1);
  assert.equal(search(index, "h.*").groups.length, 24);
});

test("a module of one op is found by its address", () => {
  assert.equal(search(index, "h.*.attn.qkv").nodes.length, 24);
});

test("nodes are found by further names that they go by", () => {
  const view = exampleView(1);
  const index = searchIndex(view, view.nodes.site.map((_, node) => (node === 2 ? "Memory.out" : "")));
  assert.deepEqual(search(index, "memory out").nodes, [2]);
});

test("hits stand in the order of the graph, a module before its ops", () => {
  const keys = hits(view, search(index, "h.0.**")).map((hit) => hit.key);
  assert.equal(keys[0], "g1");
  assert.ok(keys.indexOf("g2") > 0 && keys.indexOf("g2") < keys.indexOf("n4"));
});

test("what is called just so comes first, then what ends so, then what begins so", () => {
  const titles = (query: string): string[] => hits(view, search(index, query), query).map((hit) => hit.title);
  assert.equal(titles("attn")[0], "h.0.attn");
  assert.deepEqual(titles("h.7").slice(0, 2), ["h.7", "h.7.attn"]);
  assert.equal(titles("h 3 attn")[0], "h.3.attn");
  const groups = { ...view.groups, label: view.groups.label.map((label, group) => (group === 4 ? "norm_last" : group === 9 ? "norm" : label)) };
  const named = { ...view, groups };
  assert.deepEqual(hits(named, { nodes: [], groups: [1, 4, 9] }, "norm").map(({ title }) => title), ["norm", "norm_last", "h.0"]);
});

test("20,000 nodes are searched within 30 ms", () => {
  const large = exampleView(4000);
  assert.ok(large.nodes.label.length >= 20_000);
  const ready = searchIndex(large);
  for (const query of ["softmax", "h.*.attn/softmax", "nothing at all"]) {
    const times = Array.from({ length: 7 }, () => {
      const begin = performance.now();
      search(ready, query);
      return performance.now() - begin;
    });
    assert.ok(Math.min(...times) < 30, `${query}: ${Math.min(...times)} ms`);
  }
});
