/* Grammars of texts: which texts a regular expression, a GBNF grammar or a JSON Schema accepts, and the tokens that may
 * come next. */
#include "base/strbuf.h"
#include "random.h"
#include "texts/grammar/grammar_gbnf.h"
#include "texts/grammar/grammar_regex.h"
#include "texts/grammar/grammar_schema.h"
#include "texts/grammar/grammar_tokens.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cmocka_all.h"

/* A copy, as requests get of a kept grammar, which has the same texts as the grammar that is destroyed. */
static struct grammar *copy_of(struct grammar *grammar)
{
    struct grammar *copy = grammar_copy(grammar);

    assert_non_null(copy);
    assert_true(grammar_bytes(copy) > 0 && grammar_bytes(copy) == grammar_bytes(grammar));
    grammar_destroy(grammar);
    return copy;
}

static struct grammar *of_regex(const char *text, bool search, bool in_json, char *why)
{
    struct grammar *grammar = grammar_create();
    uint32_t rule = grammar_rule(grammar);
    grammar_node node = 0;
    bool good = grammar_regex(grammar, text, search, in_json, &node, why);

    grammar_define(grammar, rule, node);
    if (good && grammar_finish(grammar, why))
        return copy_of(grammar);
    grammar_destroy(grammar);
    return NULL;
}

static struct grammar *of_gbnf(const char *text, char *why)
{
    struct grammar *grammar = grammar_create();

    if (grammar_gbnf(grammar, text, why) && grammar_finish(grammar, why))
        return copy_of(grammar);
    grammar_destroy(grammar);
    return NULL;
}

static struct grammar *of_schema(const char *text, char *why)
{
    struct grammar *grammar = grammar_create();
    json_t *schema = text != NULL ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    bool good =
        (text == NULL || schema != NULL) && grammar_schema(grammar, schema, why) && grammar_finish(grammar, why);

    json_decref(schema);
    if (good)
        return copy_of(grammar);
    grammar_destroy(grammar);
    return NULL;
}

static bool accepts(struct grammar *grammar, const char *text)
{
    uint32_t state = grammar_start(grammar);

    for (; *text != '\0'; text++)
        state = grammar_next(grammar, state, (uint8_t)*text);
    return grammar_accepts(grammar, state);
}

/* Texts separated by |: the first list is accepted, the second is not. */
static void expect_texts(struct grammar *grammar, const char *what, const char *texts, bool accepted)
{
    char copy[1024], *at = copy, *one;

    (void)snprintf(copy, sizeof copy, "%s", texts);
    while ((one = strsep(&at, "|")) != NULL)
        if (accepts(grammar, one) != accepted)
            fail_msg("%s %s '%s'", what, accepted ? "does not accept" : "accepts", one);
}

static void regular_expressions(void **state)
{
    static const struct {
        const char *text, *good, *bad;
    } rows[] = {
        { "abc", "abc", "|ab|abcd|abd" },
        { "a|bc|", "a|bc|", "b|abc" },
        { "(?:ab)*c+d?", "c|cc|abc|ababccd", "|ab|abd|abcdd" },
        { "x{2,3}y{2}z{1,}", "xxyyz|xxxyyzz", "xyyz|xxxxyyz|xxyz|xxyy" },
        { "[a-c0_-]+", "a-0_|c", "d|A|" },
        { "[^a-y]", "z|A|\xc3\xa9", "a|y||zz|\xc3" },
        { "\\d\\w\\s.", "1a x|0_\t\xe2\x82\xac", "aa x|1- x|1axx|1a \n" },
        { "\\x41\\u0042\\.\\/", "AB./", "ABx/" },
        { "[\\u00e9-\\u20ac]", "\xc3\xa9|\xe2\x82\xac|\xdf\xbf|\xe0\xa0\x80", "\xc3\xa8|\xe2\x82\xad|e" },
        { "^a(b|c)$", "ab|ac", "a|abc" },
        { "(?<year>[0-9]{4})-x", "2026-x", "226-x" },
        { "(a*)*b", "b|aab", "a" },
        { "^a|b$", "a|b", "ab|" },
        { "(?!ab)[a-c]+", "ba|a|acb", "ab|abc|" },
        { "(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*", "-1.5|0|.5", "|-|+.|." }, /* pydantic's Decimal */
        { "(?=.*[0-9])(?=.*[a-z])[a-z0-9]{2,4}(?=b$)(b|ac)", "1bb|a1b", "bb|12abac" },
        { "P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(T(?=\\d)(\\d+H)?(\\d+S)?)?)", "P1W|P2Y|PT3H4S|P1YT5S",
          "P|PT|P1YT|P1Y2W" },
        { "^(?:(?!no)[a-z]+|n)-(o|x$)", "ab-o|n-x|nn-x",
          "no-o|nob-x|n-y" },                               /* look-aheads see what follows the group */
        { "a(?:b(?!c))?[bc]*", "a|ab|abb|acc|abcb", "b|" }, /* the option may be left out */
        { "(^a$|^b)c?", "a|b|bc", "ac|c" },
        { "x(a(?=b))b", "xab", "xa|xb" },
        { "(?:a$)?b*", "a|b|", "ab" },
        { "(?!(?!ab)a)[ab]{2}", "ab|ba|bb", "aa" },
        { "^(\\p{Extended_Pictographic}|\\p{Emoji_Component})+$", "\xf0\x9f\x98\x80|\xe2\x98\x85\xef\xb8\x8f|1",
          "a||\xc3\xa9" },
        { "\\P{Extended_Pictographic}[^\\p{Emoji_Component}x]", "1a|ab", "a1|ax|\xc2\xa9\x61" },
    };
    /* As a search. */
    static const struct {
        const char *text, *good, *bad;
    } searches[] = {
        { "(^a|b)c", "ac|xbc|acx|bcx", "xac|b" },
        { "(?:^a)?b", "ab|xb|b|xab", "a" },
        { "^(?:^a|b)(c|$)", "ac|bc|acx|a|b", "xac|ab" },
        { "a(?!b)", "a|xac|aab", "ab|xab" },
        { "(a|b$)", "xay|b|xb", "bx|" },
    };
    static const struct {
        const char *text, *why;
    } wrong[] = {
        { "(a", "without its ')'" },           { "a)", "without its '('" },
        { "[a", "without its ']'" },           { "*a", "nothing to repeat" },
        { "a{3,2}", "out of order" },          { "a{2000}", "0 to 1000" },
        { "(?<=a)", "look-around" },           { "\\1", "not supported" },
        { "[z-a]", "out of order" },           { "a^b", "at the beginning only" },
        { "(a(?=b))*", "cannot be repeated" }, { "\\u00g0", "without its digits" },
        { "\xff", "invalid UTF-8" },           { "(?=.*a.{30}b).*c", "65,536 states" },
    };
    char why[GRAMMAR_WHY_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct grammar *grammar = of_regex(rows[i].text, false, false, why);

        if (grammar == NULL)
            fail_msg("%s: %s", rows[i].text, why);
        expect_texts(grammar, rows[i].text, rows[i].good, true);
        expect_texts(grammar, rows[i].text, rows[i].bad, false);
        grammar_destroy(grammar);
    }
    for (size_t i = 0; i < sizeof searches / sizeof *searches; i++) {
        struct grammar *grammar = of_regex(searches[i].text, true, false, why);

        if (grammar == NULL)
            fail_msg("%s: %s", searches[i].text, why);
        expect_texts(grammar, searches[i].text, searches[i].good, true);
        expect_texts(grammar, searches[i].text, searches[i].bad, false);
        grammar_destroy(grammar);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(of_regex(wrong[i].text, false, false, why));
        if (strstr(why, wrong[i].why) == NULL)
            fail_msg("%s: %s", wrong[i].text, why);
    }
}

static void rules(void **state)
{
    static const struct {
        const char *text, *good, *bad;
    } rows[] = {
        { "root ::= \"yes\" | \"no\" # an answer", "yes|no", "y|yesno" },
        { "root ::= list\nlist ::= \"(\" (list\n (\",\" list)*)? \")\"", "()|(())|((),(()))", "(|(()|(,)" },
        { "root ::= expr\nexpr ::= term (op term)*\nop ::= [-+]\nterm ::= [0-9]+ | \"[\" expr \"]\"", "1+2|[1-[2]]-34",
          "1+|[1|+1" },
        { "root ::= a a\na ::= [^b-d\\n\"]{2}",
          "aeez|\xc3\xa9"
          "aaa",
          "abaa|a\naa" },
        { "root ::= \"\\x41\\u00e9\\\"\\\\\" .?", "A\xc3\xa9\"\\|A\xc3\xa9\"\\\n", "A" },
        { "root ::= root \"a\" | \"b\"", "b|ba|baa", "a|ab" }, /* begins with itself */
        { "root ::= [a-z]{0,2000} \"!\"", "!|abc!", "abc" },
    };
    static const struct {
        const char *text, *why;
    } wrong[] = {
        { "", "no rule 'root'" },
        { "root ::= other", "no rule 'other'" },
        { "root ::= \"a", "line 1: a text without its end" },
        { "root ::= \"a\"\nroot ::= \"b\"", "line 2: this rule is defined twice" },
        { "root ::= (\"a\"", "without its ')'" },
        { "root = \"a\"", "'name ::= ...' belongs here" },
        { "root ::= root", "no text matches" },
        { "root ::= \"a\"{2001}", "0 to 2000" },
    };
    char why[GRAMMAR_WHY_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct grammar *grammar = of_gbnf(rows[i].text, why);

        if (grammar == NULL)
            fail_msg("%s: %s", rows[i].text, why);
        expect_texts(grammar, rows[i].text, rows[i].good, true);
        expect_texts(grammar, rows[i].text, rows[i].bad, false);
        grammar_destroy(grammar);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(of_gbnf(wrong[i].text, why));
        if (strstr(why, wrong[i].why) == NULL)
            fail_msg("%s: %s", wrong[i].text, why);
    }
}

/* Schemas, with texts that they describe and texts that they do not. */
static const struct schema_row {
    const char *schema, *good, *bad;
} schemas[] = {
    { NULL, "{}|{\"a\":[1,-2.5e3,null,{\"b\":\"\\u00e9\\n\"}]}|{ \"a\": true }",
      "[]|1|{\"a\"}|{a:1}|{\"a\":01}|{\"a\":1,}" },
    { "true", "1|null|\"\"|[]|{}|[[],{}]", "[|nul|\"" },
    { "{\"type\":\"integer\"}", "0|-1|123", "01|1.5|--1|" },
    { "{\"type\":\"integer\",\"minimum\":-12,\"maximum\":305}", "-12|-9|0|7|99|299|305", "-13|306|1000|-0" },
    { "{\"type\":\"integer\",\"exclusiveMinimum\":9,\"exclusiveMaximum\":12}", "10|11", "9|12|1" },
    { "{\"minimum\":1}", "1|10|999999999999999", "0|-1" },
    { "{\"type\":\"number\"}", "0|-1.25|1e5|3E-7", ".5|1.|+1|NaN" },
    { "{\"type\":\"string\",\"minLength\":1,\"maxLength\":2}", "\"a\"|\"\xc3\xa9z\"|\"\\\"\\n\"", "\"\"|\"abc\"|a" },
    { "{\"type\":\"string\",\"pattern\":\"^[a-z\\\"]+$\"}", "\"ab\"|\"\\\"\"", "\"\"|\"A\"|\"\"\"" },
    { "{\"type\":\"string\",\"pattern\":\"b\"}", "\"b\"|\"abc\"|\"\\n b\"", "\"\"|\"ac\"" },
    { "{\"type\":\"string\",\"format\":\"date\"}", "\"2026-02-28\"|\"2026-12-31\"",
      "\"2026-02-30\"|\"2026-04-31\"|\"2026-13-01\"|\"26-1-1\"" },
    { "{\"type\":\"string\",\"format\":\"date-time\"}", "\"2026-11-25T03:40:00Z\"|\"2026-11-25T03:40:00.5+01:00\"",
      "\"2026-11-25\"|\"2026-11-25T24:00:00Z\"" },
    { "{\"enum\":[\"red\",1,null,{\"a\":[1]}]}", "\"red\"|1|null|{\"a\":[1]}", "red|2|\"blue\"" },
    { "{\"const\":[true]}", "[true]", "true|[]" },
    { "{\"type\":[\"string\",\"integer\"],\"enum\":[\"a\",1,2.5,null]}", "\"a\"|1", "2.5|null" },
    { "{\"type\":\"string\",\"const\":\"a\",\"title\":\"t\",\"default\":\"a\"}", "\"a\"", "a" },
    { "{\"type\":[\"string\",\"null\"]}", "null|\"x\"", "1" },
    { "{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":3}",
      "[true]|[true, false]|[ true,true,true ]", "[]|[1]|[true,true,true,true]" },
    { "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"integer\"}],\"items\":false}",
      "[\"a\",1]", "[1,\"a\"]|[\"a\"]|[\"a\",1,2]" },
    { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"},\"c\":{\"type\":"
      "\"integer\"}},\"required\":[\"b\"],\"additionalProperties\":false}",
      "{\"b\":1}|{\"a\":1,\"b\":2}|{\"b\":1,\"c\":2}|{\"a\": 1, \"b\": 2, \"c\": 3}",
      "{}|{\"a\":1}|{\"b\":1,}|{\"b\":1,\"a\":1}|{\"b\":1,\"d\":1}|{\"b\":1 \"c\":2}" },
    { "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"}}", "{}|{\"x\":null}|{\"x\":null,\"y\":null}",
      "{\"x\":1}" },
    { "{\"type\":\"object\",\"properties\":{},\"required\":[\"k\"]}", "{\"k\":[1]}", "{}|{\"l\":1}" },
    { "{\"anyOf\":[{\"type\":\"integer\"},{\"$ref\":\"#/$defs/names\"}],\"$defs\":{\"names\":{\"type\":\"array\","
      "\"items\":{\"type\":\"string\"}}}}",
      "1|[]|[\"a\"]", "\"a\"|[1]" },
    { "{\"type\":\"object\",\"properties\":{\"value\":{\"type\":\"integer\"},\"next\":{\"anyOf\":[{\"$ref\":\"#\"},{"
      "\"type\":\"null\"}]}},\"required\":[\"value\",\"next\"],\"additionalProperties\":false}",
      "{\"value\":1,\"next\":null}|{\"value\":1,\"next\":{\"value\":2,\"next\":null}}",
      "{\"value\":1}|{\"value\":1,\"next\":{}}" },
    { "{\"description\":\"a note\",\"allOf\":[{\"type\":\"boolean\"}]}", "true|false", "null" },
};

/* Schemas as zod and pydantic write them, and as in the standard's examples. */
static const struct schema_row client_schemas[] = {
    { "{\"type\":\"integer\",\"minimum\":-9007199254740991,\"maximum\":9007199254740991}",
      "0|-9007199254740991|9007199254740991|12", "9007199254740992|-9007199254740992|1.0" },
    { "{\"type\":\"integer\",\"exclusiveMinimum\":0,\"maximum\":9007199254740991}", "1|9007199254740991", "0|-1" },
    { "{\"type\":\"integer\",\"minimum\":0.5,\"maximum\":10.0}", "1|10", "0|11" },
    { "{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", "0|1|0.5|1.000|0.0001", "1.1|-0.1|2|1.0001" },
    { "{\"type\":\"number\",\"exclusiveMinimum\":-1.25,\"exclusiveMaximum\":10.5}", "-1.24|-1.2|0|10.49|9",
      "-1.25|-1.3|10.5|11|-2" },
    { "{\"type\":\"number\",\"exclusiveMinimum\":0}", "0.1|0.001|5", "0|0.0|-1|-0" },
    { "{\"type\":\"number\",\"minimum\":-1e308,\"maximum\":0}", "0|-1|-0.5", "1|0.1" },
    { "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":-21,\"maximum\":30}", "-21|0|7|28", "35|-28|8" },
    { "{\"type\":\"number\",\"multipleOf\":0.25}", "0.25|1|-3.5|100.75", "0.3|0.125" },
    { "{\"type\":\"number\",\"multipleOf\":0.01,\"minimum\":0,\"maximum\":20}", "0.07|19.99|20|3.1", "20.01|0.001" },
    { "{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"minLength\":2,\"maxLength\":4}", "\"ab\"|\"abcd\"",
      "\"a\"|\"abcde\"|\"A1\"" },
    { "{\"type\":\"string\",\"pattern\":\"^2\",\"format\":\"date\"}", "\"2024-02-29\"",
      "\"1999-01-01\"|\"2023-02-29\"" },
    { "{\"type\":\"string\",\"format\":\"email\",\"pattern\":\"^(?!\\\\.)(?!.*\\\\.\\\\.)([A-Za-z0-9_'+\\\\-\\\\.]*)"
      "[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\\\-]*\\\\.)+[A-Za-z]{2,}$\"}",
      "\"a.b@example.org\"", "\"a..b@example.org\"|\".a@b.org\"|\"a@b\"" },
    { "{\"type\":\"string\",\"format\":\"uri\"}", "\"https://a.example/x?y=1#z\"",
      "\"https://\"|\"a b\"|\"example.org\"" },
    { "{\"type\":\"string\",\"format\":\"ipv6\"}", "\"::1\"|\"2001:db8::ff00:42:8329\"|\"1:2:3:4:5:6:7:8\"",
      "\"1::2::3\"|\"12345::\"" },
    { "{\"type\":\"string\",\"format\":\"uuid\",\"maxLength\":36}", "\"0188a0b4-6d3b-7c2e-9f1a-0123456789ab\"",
      "\"0188a0b4\"" },
    { "{\"allOf\":[{\"properties\":{\"a\":{}}},{\"unevaluatedProperties\":false}]}", "{}", "{\"a\":1}|{\"b\":1}" },
    { "{\"allOf\":[{\"properties\":{\"a\":{}}}],\"unevaluatedProperties\":false}", "{}|{\"a\":1}", "{\"b\":1}" },
    { "{\"properties\":{\"a\":{}},\"not\":{\"not\":{\"properties\":{\"b\":{}},\"required\":[\"b\"]}},"
      "\"required\":[\"a\"],\"unevaluatedProperties\":{\"type\":\"null\"}}",
      "{\"a\":1,\"b\":null}", "{\"a\":1}|{\"a\":1,\"b\":1}" },
    { "{\"oneOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},{\"properties\":{\"b\":{\"const\":"
      "2}},\"required\":[\"b\"]}],\"unevaluatedProperties\":false}",
      "{\"a\":1}|{\"b\":2}", "{\"a\":1,\"b\":2}|{\"a\":1,\"b\":3}|{}" },
    { "{\"if\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},\"then\":{\"properties\":{\"b\":{}}},"
      "\"else\":{\"properties\":{\"c\":{}}},\"unevaluatedProperties\":false}",
      "{\"a\":1,\"b\":2}|{\"c\":2}|{}", "{\"a\":1,\"c\":2}|{\"b\":2}|{\"a\":2}" },
    { "{\"$ref\":\"#/$defs/d\",\"unevaluatedProperties\":false,\"$defs\":{\"d\":{\"properties\":{\"a\":{}}}}}",
      "{\"a\":1}", "{\"b\":1}" },
    { "{\"allOf\":[{\"prefixItems\":[{\"type\":\"null\"}]}],\"unevaluatedItems\":{\"type\":\"integer\"}}",
      "[null]|[null,1]", "[1]|[null,null]" },
    { "{\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"dependencies\":{\"a\":[\"b\"],\"b\":{\"required\":[\"c\"]}}}",
      "{}|{\"c\":1}|{\"a\":1,\"b\":1,\"c\":1}", "{\"a\":1}|{\"b\":1}|{\"a\":1,\"b\":1}" },
    { "{\"enum\":[{\"a\":1},{\"a\":1,\"b\":2}],\"dependencies\":{\"a\":[\"b\"]}}", "{\"a\":1,\"b\":2}", "{\"a\":1}" },
    { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"dependentRequired\":{}}", "{}", "1" },
    { "{\"$id\":\"https://x.org/root.json\",\"properties\":{\"a\":{\"$ref\":\"item\"},\"b\":{\"$ref\":\"#n\"},"
      "\"c\":{\"$ref\":\"https://x.org/root.json#/$defs/i/$defs/z\"}},\"additionalProperties\":false,\"$defs\":{"
      "\"i\":{\"$id\":\"/item\",\"allOf\":[{\"$ref\":\"#/$defs/z\"}],\"$defs\":{\"z\":{\"type\":\"integer\"}}},"
      "\"n\":{\"$anchor\":\"n\",\"type\":\"null\"},\"z\":{\"type\":\"string\"}}}",
      "{\"a\":1,\"b\":null,\"c\":2}", "{\"a\":\"s\"}|{\"b\":1}|{\"c\":\"s\"}" },
    { "{\"$dynamicRef\":\"#a\",\"$defs\":{\"p\":{\"$dynamicAnchor\":\"a\",\"type\":\"null\"}}}", "null", "1" },
    { "{\"$dynamicRef\":\"#a\",\"$defs\":{\"p\":{\"$anchor\":\"a\",\"const\":[1]}}}", "[1]", "[2]|1" },
    /* The root's anchor replaces that of the resource. */
    { "{\"$id\":\"https://x.org/"
      "tree\",\"$dynamicAnchor\":\"node\",\"type\":\"object\",\"properties\":{\"next\":{\"$ref\":"
      "\"list\"}},\"required\":[\"next\"],\"additionalProperties\":false,\"$defs\":{\"l\":{\"$id\":\"list\",\"type\":["
      "\"array\","
      "\"null\"],\"items\":{\"$dynamicRef\":\"#node\"},\"$dynamicAnchor\":\"node\"}}}",
      "{\"next\":null}|{\"next\":[]}|{\"next\":[{\"next\":null}]}", "{}|{\"next\":[null]}|{\"next\":[[]]}" },
    { "{\"enum\":[1,\"a\"],\"$dynamicRef\":\"#a\",\"$defs\":{\"p\":{\"$dynamicAnchor\":\"a\",\"type\":\"string\"}}}",
      "\"a\"", "1" },
    /* zod 4's iso.duration, emoji and hostname */
    { "{\"type\":\"string\",\"format\":\"duration\",\"pattern\":\"^P(?:(\\\\d+W)|(?!.*W)(?=\\\\d|T\\\\d)(\\\\d+Y)?("
      "\\\\d+M)?(\\\\d+"
      "D)?(T(?=\\\\d)(\\\\d+H)?(\\\\d+M)?(\\\\d+([.,]\\\\d+)?S)?)?)$\"}",
      "\"P1W\"|\"P1Y2M3D\"|\"PT4H5M6S\"|\"P3DT1S\"", "\"P\"|\"PT\"|\"P1DT\"|\"P1W2D\"" },
    { "{\"type\":\"string\",\"format\":\"emoji\",\"pattern\":\"^(\\\\p{Extended_Pictographic}|\\\\p{Emoji_Component})+$"
      "\"}",
      "\"\xf0\x9f\x98\x80\"", "\"a\"|\"\"" },
    { "{\"type\":\"string\",\"format\":\"hostname\",\"pattern\":\"^(?=.{1,253}\\\\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}["
      "a-zA-Z0-9]"
      ")?(?:\\\\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\\\\.?$\"}",
      "\"a\"|\"a-b.example.org\"", "\"-a\"|\"a..b\"|\"\"" },
    { "{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", "0.5|99413668112499.5", "2|2.0|994136681124996.062" },
    { "{\"type\":\"string\",\"pattern\":\"^\\\\S$\"}", "\"a\"", "\"\xe2\x80\x83\"|\" \"" },
    { "{\"type\":\"string\",\"maxLength\":100000}", "\"\"|\"ab\"", "\"" },
    { "{\"type\":\"array\",\"items\":{\"enum\":[1,2,3]},\"uniqueItems\":true,\"minItems\":2}", "[1,2]|[3,1,2]",
      "[1,1]|[1]" },
    { "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"contains\":{\"minimum\":9,\"maximum\":9}}", "[9]|[1,9,2]",
      "[]|[1]" },
    { "{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":2,\"maxItems\":3}", "[1,1]|[1,2,1]",
      "[1]|[1,2,3,1]|[1,2]" },
    { "{\"prefixItems\":[{\"type\":\"null\"},{},{}],\"maxItems\":1}", "[null]", "[1]|[null,1]" },
    { "{\"contains\":{\"const\":1},\"maxContains\":1,\"items\":{\"type\":\"integer\"}}", "[1]|[2,1,12]",
      "[]|[2]|[1,1]" },
    { "{\"contains\":{\"type\":\"null\"},\"minContains\":0,\"maxContains\":2,\"prefixItems\":[{\"type\":\"null\"}]}",
      "[null]|[null,1,null]", "[1]|[null,null,null]" },
    { "{\"items\":{\"type\":\"integer\"},\"allOf\":[{\"contains\":{\"minimum\":4}},{\"contains\":{\"multipleOf\":2},"
      "\"minContains\":2},{\"contains\":{\"const\":7},\"maxContains\":2}]}",
      "[4,2,7]|[7,2,2]|[1,7,8,6,7]", "[2,2]|[4,7]|[7,2,7,2,7]|[4,4]" },
    { "{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"not\":{\"contains\":{\"const\":1},\"minContains\":2,"
      "\"maxContains\":3}}",
      "[]|[1]|[2,1,2]|[1,1,2,1,1]", "[1,1]|[1,2,1,1]" },
    { "{\"type\":\"number\",\"not\":{\"multipleOf\":0.5}}", "0.25|-3.125|1.4", "0|0.5|1.50|-2|3.0" },
    { "{\"type\":\"integer\",\"oneOf\":[{\"multipleOf\":2},{\"multipleOf\":3}]}", "2|-9|10", "6|0|5|1" },
    { "{\"not\":{\"const\":[1,{}]},\"type\":\"array\"}", "[]|[1]|[2,{}]|[1,{\"a\":1}]|[1,{},1]", "[1,{}]|[1, {}]|1" },
    { "{\"not\":{\"enum\":[{\"a\":1},{},3]},\"type\":[\"object\",\"integer\"],\"properties\":{\"a\":{},\"b\":{}}}",
      "4|{\"b\":1}|{\"a\":2}", "3|{}|{\"a\":1}|[]" },
    { "{\"type\":\"string\",\"oneOf\":[{\"format\":\"hostname\"},{\"format\":\"ipv4\"},{\"format\":\"ipv6\"}]}",
      "\"a.example\"|\"10.0.0.1\"|\"::1\"", "\"\"|\"a b\"|\"1.2.3\"" },
    { "{\"type\":\"string\",\"not\":{\"format\":\"date\"},\"maxLength\":12}", "\"\"|\"2026-1-1\"|\"2026-01-01T\"",
      "\"2026-01-01\"|\"2026-13-01\"" },
    { "{\"type\":\"object\",\"not\":{\"propertyNames\":{\"not\":{\"enum\":[\"a\",\"b\"]}}}}", "{\"a\":1}|{\"b\":1}",
      "{}|{\"c\":1}" },
    { "{\"type\":\"array\",\"not\":{\"prefixItems\":[{\"type\":\"null\"},{\"type\":\"null\"}]}}",
      "[1]|[null,1]|[1,null,2]", "[]|[null]|[null,null,1]" },
    { "{\"properties\":{\"a\":{},\"b\":{}},\"type\":\"object\",\"not\":{\"dependentRequired\":{\"a\":[\"b\"]}}}",
      "{\"a\":1}", "{}|{\"b\":1}|{\"a\":1,\"b\":1}" },
    { "{\"type\":[\"integer\",\"null\"],\"not\":{\"if\":{\"type\":\"null\"},\"then\":false,\"else\":{\"maximum\":3}}}",
      "null|4|12", "3|-1" },
    { "{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},{\"type\":"
      "\"object\","
      "\"properties\":{\"b\":{\"type\":\"null\"}},\"required\":[\"b\"]}]}",
      "{\"a\":1,\"b\":null}", "{\"a\":1}|{\"b\":null}" },
    { "{\"$ref\":\"#/$defs/a\",\"maximum\":5,\"$defs\":{\"a\":{\"type\":\"integer\",\"minimum\":3}}}", "3|5", "2|6" },
    { "{\"not\":{\"enum\":[1,\"a\",null]},\"type\":[\"integer\",\"string\",\"null\"]}", "2|10|\"b\"|\"\"|\"ab\"",
      "1|\"a\"|null" },
    { "{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"x\",\"y\"]},\"additionalProperties\":{\"type\":\"integer\"}"
      "}",
      "{}|{\"x\":1}|{\"x\":1,\"y\":2}|{\"y\":2}", "{\"z\":1}|{\"x\":null}" },
    { "{\"type\":\"object\",\"patternProperties\":{\"^n_\":{\"type\":\"integer\"}},\"additionalProperties\":false}",
      "{}|{\"n_\":1}|{\"n_a\":1}", "{\"m\":1}|{\"n_a\":null}" },
    { "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"minProperties\":2,\"maxProperties\":2}",
      "{\"a\":1,\"b\":2}|{\"b\":1,\"c\":2}", "{\"a\":1}|{\"a\":1,\"b\":1,\"c\":1}|{}" },
    { "{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"a\",\"b\"]},\"v\":{\"type\":[\"integer\",\"string\"]}},"
      "\"required\":[\"k\",\"v\"],\"if\":{\"properties\":{\"k\":{\"const\":\"a\"}}},\"then\":{\"properties\":{\"v\":{"
      "\"type\":"
      "\"integer\"}}},\"else\":{\"properties\":{\"v\":{\"type\":\"string\"}}}}",
      "{\"k\":\"a\",\"v\":1}|{\"k\":\"b\",\"v\":\"x\"}", "{\"k\":\"a\",\"v\":\"x\"}|{\"k\":\"b\",\"v\":1}" },
    { "{\"oneOf\":[{\"type\":\"integer\",\"minimum\":0,\"maximum\":5},{\"type\":\"integer\",\"minimum\":3,\"maximum\":"
      "9}]}",
      "0|2|6|9", "3|5|10" },
    { "{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "0.5|-1.25", "41|1.0" },
    { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"null\"}},\"dependentRequired\":"
      "{\"a\":"
      "[\"b\"]}}",
      "{}|{\"b\":null}|{\"a\":null,\"b\":null}", "{\"a\":null}" },
    { "{\"anyOf\":[{\"type\":\"number\"},{\"type\":\"string\",\"pattern\":\"^(?!^[-+.]*$)[+-]?0*\\\\d*\\\\.?\\\\d*$\"}]"
      "}",
      "1.5|\"-1.5\"|\"0\"", "\"-\"|\"\"|\"a\"" },
};

static void expect_rows(const struct schema_row *rows, size_t count)
{
    char why[GRAMMAR_WHY_BYTES];

    for (size_t i = 0; i < count; i++) {
        struct grammar *grammar = of_schema(rows[i].schema, why);

        if (grammar == NULL)
            fail_msg("%s: %s", rows[i].schema, why);
        expect_texts(grammar, rows[i].schema, rows[i].good, true);
        expect_texts(grammar, rows[i].schema, rows[i].bad, false);
        grammar_destroy(grammar);
    }
}

static void json_schemas(void **state)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        { "{\"type\":\"number\",\"multipleOf\":12345}", "'multipleOf'" },
        { "{\"type\":\"array\",\"uniqueItems\":true}", "'uniqueItems'" },
        { "{\"type\":\"array\",\"contains\":{},\"maxContains\":1000}", "'contains': more than 1,000" },
        { "{\"contains\":{},\"allOf\":[{\"contains\":{}},{\"contains\":{}},{\"contains\":{}},{\"contains\":{}}]}",
          "'contains': more than 4" },
        { "{\"not\":{}}", "no value matches" },
        { "{\"not\":{\"format\":\"regex\"}}", "'format': this one is not supported within 'not'" },
        { "{\"not\":{\"format\":\"unknown\"}}", "no value matches" },
        { "{\"type\":\"object\",\"minProperties\":3}", "'minProperties': more than one property" },
        { "{\"unevaluatedItems\":false,\"contains\":{}}", "'unevaluatedItems': not supported with contains" },
        { "{\"const\":[1],\"unevaluatedItems\":false}", "'unevaluatedItems': not supported for values" },
        { "{\"$recursiveRef\":\"#\"}", "'$recursiveRef': not supported" },
        { "{\"not\":{\"$dynamicRef\":\"#a\"}}", "refers to nothing" },
        { "{\"$dynamicRef\":\"p#a\",\"$defs\":{\"p\":{\"$id\":\"p\",\"$dynamicAnchor\":\"a\"},\"q\":{\"$id\":\"q\","
          "\"$dynamicAnchor\":\"a\"}}}",
          "several schemas have this $dynamicAnchor" },
        { "{\"dependencies\":[1]}", "'dependencies': not an object" },
        { "{\"type\":\"text\"}", "no such type" },
        { "{\"type\":7}", "no such type" },
        { "{\"$ref\":\"#/$defs/none\"}", "refers to nothing" },
        { "{\"$ref\":\"#\"}", "refers to itself" },
        { "{\"$ref\":\"https://x.org/other\"}", "refers to nothing" },
        { "{\"$ref\":\"#a\",\"$defs\":{\"p\":{\"$anchor\":\"a\"},\"q\":{\"$anchor\":\"a\"}}}", "refers to nothing" },
        { "{\"allOf\":[{\"$id\":\"a/\",\"$ref\":\"#/$defs/z\",\"$defs\":{\"z\":{}}}],\"$defs\":{\"z\":false}}",
          "refers to nothing" },
        { "{\"$ref\":\"q\",\"enum\":[{\"$id\":\"q\"}]}", "refers to nothing" },
        { "{\"type\":\"string\",\"pattern\":\"(\"}", "'pattern': the regular expression" },
        { "{\"type\":\"integer\",\"minimum\":2,\"maximum\":1}", "no value matches" },
        { "{\"type\":\"string\",\"minLength\":-1}", "whole number" },
        { "{\"enum\":[]}", "no value matches" },
        { "{\"type\":\"string\",\"enum\":[1]}", "no value matches" },
        { "{\"enum\":[\"ab\"],\"maxLength\":1}", "no value matches" },
        { "{\"const\":5,\"maximum\":4}", "no value matches" },
        { "{\"oneOf\":[{},{}]}", "no value matches" },
        { "{\"properties\":{\"a\":7}}", "has to be an object" },
    };
    char why[GRAMMAR_WHY_BYTES], base[1200];

    (void)state;
    expect_rows(schemas, sizeof schemas / sizeof *schemas);
    expect_rows(client_schemas, sizeof client_schemas / sizeof *client_schemas);
    (void)snprintf(base, sizeof base, "{\"$id\":\"https://%01100d/\"}", 0); /* each name within would repeat it */
    assert_null(of_schema(base, why));
    assert_non_null(strstr(why, "'$id': longer than 1,000 bytes"));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(of_schema(wrong[i].text, why));
        if (strstr(why, wrong[i].why) == NULL)
            fail_msg("%s: %s", wrong[i].text, why);
    }
}

/* A JSON array or object of `count` parts, each of which has its number. */
static void add_parts(struct strbuf *text, size_t count, const char *format)
{
    for (size_t i = 0; i < count; i++) {
        strbuf_text(text, i > 0 ? "," : "");
        strbuf_format(text, format, i, i % 7);
    }
}

/* Many texts with lengths, long arrays, and many alternatives. */
static void many_parts(void **state)
{
    static const struct {
        const char *before, *part, *after;
        size_t count;
        const char *good_part, *bad_part; /* of a text in the braces or brackets of `after` */
    } rows[] = {
        { "{\"properties\":{", "\"p%zu\":{\"type\":\"string\",\"maxLength\":25%zu}", "}}", 100, "\"p%zu\":\"%0250zu\"",
          "\"p%zu\":\"%0257zu\"" },
        { "{\"properties\":{", "\"p%zu\":{\"type\":\"array\",\"maxItems\":100%zu,\"items\":{\"type\":\"integer\"}}",
          "}}", 40, "\"p%zu\":[%zu,2,3]", "\"p%zu\":[%zu,0.5]" },
        { "{\"items\":{\"enum\":[", "\"w%zux%zu\"", "]}}", 50000, "\"w%zux%zu\"", "\"w%zu%zu\"" },
        { "{\"properties\":{", "\"p%zu\":{\"type\":\"integer\",\"minimum\":%zu}", "}}", 2000, "\"p%zu\":%zu",
          "\"p%zu\":-%zu" },
    };
    char why[GRAMMAR_WHY_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bool is_object = rows[i].after[0] == '}';
        struct strbuf text = { 0 };
        struct grammar *grammar;

        strbuf_text(&text, rows[i].before);
        add_parts(&text, rows[i].count, rows[i].part);
        strbuf_text(&text, rows[i].after);
        strbuf_add(&text, "", 1);
        grammar = of_schema(text.data, why);
        if (grammar == NULL)
            fail_msg("%.100s: %s", text.data, why);
        for (int bad = 0; bad < 2; bad++) {
            text.size = 0;
            strbuf_text(&text, is_object ? "{" : "[");
            add_parts(&text, rows[i].count < 90 ? rows[i].count : 90, bad ? rows[i].bad_part : rows[i].good_part);
            strbuf_text(&text, is_object ? "}" : "]");
            strbuf_add(&text, "", 1);
            if (accepts(grammar, text.data) == (bool)bad)
                fail_msg("row %zu: %.100s is %saccepted", i, text.data, bad ? "" : "not ");
        }
        grammar_destroy(grammar);
        strbuf_deinit(&text);
    }
}

/* A grammar whose states take too long to compute ends its machine, not the server: here a state has a position for
 * each 'a' among the last 8,000 characters. */
static void work_is_bounded(void **state)
{
    char why[GRAMMAR_WHY_BYTES];
    struct grammar *grammar = of_regex("[az]*a(?:[az]{1000}){8}", false, false, why);
    uint64_t seed = 1;
    uint32_t at;

    (void)state;
    if (grammar == NULL)
        fail_msg("%s", why);
    at = grammar_start(grammar);
    for (int i = 0; i < 20000 && !grammar_failed(grammar); i++)
        at = grammar_next(grammar, at, (uint8_t) "az"[random_below(&seed, 2)]);
    assert_true(grammar_failed(grammar));
    assert_int_equal(at, GRAMMAR_DEAD);
    assert_int_equal(grammar_next(grammar, grammar_start(grammar), 'a'), GRAMMAR_DEAD);
    grammar_destroy(grammar);
}

enum { TOKENS = 700 };

struct vocabulary {
    char texts[TOKENS][32];
    size_t bytes[TOKENS];
};

/* Special tokens, which are not parts of texts. */
static bool is_special(int64_t token)
{
    return token >= 256 && token % 50 == 49;
}

static const char *bytes_of(const void *user, int64_t token, size_t *bytes)
{
    const struct vocabulary *words = user;

    *bytes = words->bytes[token];
    return is_special(token) ? NULL : words->texts[token];
}

/* All bytes, pieces of JSON, and random texts of letters that often begin alike. */
static void make_vocabulary(struct vocabulary *words, uint64_t *seed)
{
    static const char *const pieces[] = { "{\"",  "\":", "\",\"", "\"}",   "}}",   "true",    "false",
                                          "null", "[\"", "\"]",   "],",    "}, ",  "\": ",    "12",
                                          "-3",   "0.5", "e1",    "\\u00", "\\\"", "\xc3\xa9" };
    const size_t known = sizeof pieces / sizeof *pieces;

    for (size_t i = 0; i < TOKENS; i++) {
        size_t length = i < 256 ? 1 : i < 256 + known ? strlen(pieces[i - 256]) : 1 + random_below(seed, 9);

        for (size_t k = 0; k < length; k++)
            words->texts[i][k] = i < 256           ? (char)i
                                 : i < 256 + known ? pieces[i - 256][k]
                                                   : (char)('a' + (int)random_below(seed, k < 4 ? 2 : 20));
        words->bytes[i] = length;
    }
}

/* The mask has exactly the tokens whose bytes lead to a living state. */
static void check_mask(const struct vocabulary *words, const token_index *index, struct grammar *grammar, uint32_t at)
{
    bool any, found = false;
    const uint64_t *mask = token_index_mask(index, grammar, at, &any);

    assert_non_null(mask);
    for (size_t i = 0; i < TOKENS; i++) {
        uint32_t next = is_special((int64_t)i) ? GRAMMAR_DEAD : at;

        for (size_t k = 0; k < words->bytes[i] && next != GRAMMAR_DEAD; k++)
            next = grammar_next(grammar, next, (uint8_t)words->texts[i][k]);
        assert_int_equal(mask[i / 64] >> i % 64 & 1, next != GRAMMAR_DEAD);
        found |= next != GRAMMAR_DEAD;
    }
    assert_int_equal(any, found);
}

/* Random texts by the masks: each is JSON, and accepted. After some tokens, only those are chosen that bring the end
 * nearer: the shortest text that completes it is found by a search over states. */
static size_t distance(struct grammar *grammar, uint32_t at)
{
    uint32_t *queue = malloc(4096 * sizeof *queue);
    size_t *far = malloc(4096 * sizeof *far), first = 0, last = 0, found = SIZE_MAX;

    queue[last] = at;
    far[last++] = 0;
    while (first < last && found == SIZE_MAX) {
        if (grammar_accepts(grammar, queue[first]))
            found = far[first];
        for (int byte = ' '; byte <= 255 && found == SIZE_MAX; byte++) {
            uint32_t next = grammar_next(grammar, queue[first], (uint8_t)byte);
            bool seen = next == GRAMMAR_DEAD;

            for (size_t i = 0; i < last && !seen; i++)
                seen = queue[i] == next;
            if (!seen && last < 4096) {
                queue[last] = next;
                far[last++] = far[first] + 1;
            }
        }
        first++;
    }
    free(queue);
    free(far);
    return found;
}

static void random_texts(void **state)
{
    static struct vocabulary words;
    uint64_t seed = 20261125;
    token_index *index;
    char why[GRAMMAR_WHY_BYTES];

    (void)state;
    make_vocabulary(&words, &seed);
    index = token_index_create(bytes_of, &words, TOKENS);
    assert_non_null(index);
    for (size_t s = 0; s < sizeof schemas / sizeof *schemas; s++) {
        struct grammar *grammar = of_schema(schemas[s].schema, why);

        assert_non_null(grammar);
        for (int round = 0; round < 12; round++) {
            char text[2048];
            size_t used = 0;
            uint32_t at = grammar_start(grammar);
            json_t *parsed;

            for (int step = 0; !grammar_accepts(grammar, at) || random_below(&seed, 3) > 0; step++) {
                bool any;
                const uint64_t *mask = token_index_mask(index, grammar, at, &any);
                size_t chosen, least = distance(grammar, at);

                assert_non_null(mask);
                if (!any || (step > 20 && grammar_accepts(grammar, at)))
                    break;
                if (step < 2)
                    check_mask(&words, index, grammar, at);
                if (step == 200 || least == SIZE_MAX)
                    fail_msg("%s: no end of %.*s", schemas[s].schema, (int)used, text);
                do
                    chosen = random_below(&seed, TOKENS);
                while (
                    (mask[chosen / 64] >> chosen % 64 & 1) == 0 ||
                    (step > 20 && distance(grammar, token_index_next(index, grammar, at, (int64_t)chosen)) >= least));
                assert_true(used + words.bytes[chosen] < sizeof text);
                memcpy(text + used, words.texts[chosen], words.bytes[chosen]);
                used += words.bytes[chosen];
                at = token_index_next(index, grammar, at, (int64_t)chosen);
                assert_int_not_equal(at, GRAMMAR_DEAD);
            }
            assert_true(grammar_accepts(grammar, at));
            parsed = json_loadb(text, used, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            if (parsed == NULL)
                fail_msg("%s: not JSON: %.*s", schemas[s].schema, (int)used, text);
            if (getenv("INLAY_SHOW_TEXTS") != NULL) /* for another validator */
                (void)printf("%zu %s\t%.*s\n", s, schemas[s].schema != NULL ? schemas[s].schema : "true", (int)used,
                             text);
            json_decref(parsed);
        }
        assert_false(grammar_failed(grammar));
        grammar_destroy(grammar);
    }
    token_index_destroy(index);
}

/* Words of many scripts, of more characters than a shared mask has, with pieces of characters and with the ends of
 * strings, so that each way through a state's mask is taken. */
static void make_words(struct vocabulary *words, uint64_t *seed)
{
    static const char *const pieces[] = {
        "a", "b", "E", " ", "7", ",", "\"", "\\", "\\n", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xe2", "\x80"
    };

    for (size_t i = 256; i < TOKENS; i++) {
        const size_t most = random_below(seed, 4) == 0 ? 28 : 8;
        const size_t kinds = random_below(seed, 3) == 0 ? sizeof pieces / sizeof *pieces : 6;

        words->bytes[i] = 0;
        do {
            const char *piece = pieces[random_below(seed, kinds)];

            memcpy(words->texts[i] + words->bytes[i], piece, strlen(piece));
            words->bytes[i] += strlen(piece);
        } while (words->bytes[i] < most && random_below(seed, most) > 0);
    }
}

/* Random walks through grammars whose strings have many sets of characters, more than there are shared masks, and
 * limits. Every mask is that of its state. */
static void shared_masks(void **state)
{
    static struct vocabulary words;
    uint64_t seed = 20261127;
    token_index *index;

    (void)state;
    make_vocabulary(&words, &seed);
    make_words(&words, &seed);
    index = token_index_create(bytes_of, &words, TOKENS);
    assert_non_null(index);
    for (int round = 0; round < 60; round++) {
        char text[160], why[GRAMMAR_WHY_BYTES] = "";
        const char left_out = (char)(' ' + (int)random_below(&seed, 90));
        const unsigned most = random_below(&seed, 2) == 0 ? 0 : 10 + (unsigned)random_below(&seed, 40);
        struct grammar *grammar;
        uint32_t at;

        if (round % 2 == 0)
            (void)snprintf(text, sizeof text, "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":%u}}",
                           most > 0 ? most : 1000);
        else
            (void)snprintf(text, sizeof text, "[^\\x%02x%s]%s", (unsigned)left_out,
                           random_below(&seed, 2) == 0 ? "" : "\xc3\xa9", most > 0 ? "{20,40}" : "*");
        grammar = round % 2 == 0 ? of_schema(text, why) : of_regex(text, false, false, why);
        if (grammar == NULL)
            fail_msg("%s: %s", text, why);
        at = grammar_start(grammar);
        for (int step = 0; step < 25 && at != GRAMMAR_DEAD; step++) {
            size_t chosen = random_below(&seed, TOKENS);
            bool any;

            check_mask(&words, index, grammar, at);
            for (size_t i = 0; i < TOKENS; i++, chosen = (chosen + 1) % TOKENS)
                if (token_index_mask(index, grammar, at, &any)[chosen / 64] >> chosen % 64 & 1)
                    break;
            at = token_index_next(index, grammar, at, (int64_t)chosen);
        }
        if (grammar_failed(grammar))
            fail_msg("%s: more than %u positions of states", text, grammar_work(grammar));
        grammar_destroy(grammar);
    }
    token_index_destroy(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regular_expressions), cmocka_unit_test(rules),           cmocka_unit_test(json_schemas),
        cmocka_unit_test(random_texts),        cmocka_unit_test(work_is_bounded), cmocka_unit_test(shared_masks),
        cmocka_unit_test(many_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
