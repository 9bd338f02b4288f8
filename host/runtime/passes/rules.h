/* passes/rules.h - rewrites that are stated as text: the compiled form of files in rules/, and the one matcher for all.
 *
 * rules/README.md describes the notation. The build compiles it to constant tables of the structs below
 * (rules/compile.awk), one rule_set for each pass. */
#ifndef PASSES_RULES_H
#define PASSES_RULES_H
#include "passes/rewrite.h"

enum {
    RULE_SLOTS = 24,   /* variables of a rule */
    RULE_CHOICES = 32, /* decisions of one match: sides of commutative operators, alternatives, factors */
    RULE_LIKE = 0x80   /* in rule_term.types: the type of an input */
};

/* Kinds of terms. Of patterns and results: VALUE, SCALAR, NUMBER, OP. Of patterns: EITHER, PRODUCT. Of results: the
 * others. */
enum {
    RULE_VALUE,   /* the value in the slot; a pattern binds it first */
    RULE_SCALAR,  /* a constant of one element, the number in the slot */
    RULE_NUMBER,  /* the same with that number */
    RULE_OP,      /* the output of a node */
    RULE_EITHER,  /* the first of the terms that matches */
    RULE_PRODUCT, /* a product of the terms and a constant, in any order and nesting */
    RULE_LIST,    /* a constant int64[count] */
    RULE_OMITTED, /* an omitted input */
    RULE_CAST,    /* args[0] as dtype, or as the type of the value in the slot */
    RULE_GIVEN /* args[0] if the value in the slot is not omitted, or if the number there is `number`; else args[1] */
};

enum { RULE_ATTR_NUMBER, RULE_ATTR_TEXT, RULE_ATTR_INTS, RULE_ATTR_SLOT, RULE_ATTR_COPY };

/* An attribute: a pattern compares it, or binds it to a slot; a result sets it, or copies it from the matched node if
 * that states it (COPY). */
typedef struct rule_attr {
    const char *name;
    uint8_t kind, slot;
    bool is_int;
    uint16_t count; /* of ints */
    union {
        double number;
        const char *text;
        const int64_t *ints;
    };
    const char *why; /* the near miss if it differs, see rule_term */
} rule_attr;

/* The bit of an operator's first letter in rule_set.letters. */
#define RULE_LETTER(letter) (1u << ((letter)&31))

typedef struct rule_term {
    uint8_t kind;
    uint8_t slot;
    uint8_t label;       /* 1 + slot to which a pattern or an operator's result is bound, too; 0: none */
    uint8_t count;       /* of args */
    uint8_t attr_count;  /* of attrs */
    uint8_t first, last; /* pattern: the since_versions that match; result: its opset (0: that of the matched node) */
    uint8_t outputs;     /* of a result's operator */
    uint8_t output;      /* VALUE: which output of the labelled operator */
    uint8_t dtype;       /* of CAST */
    bool newer;          /* result: the matched node's opset if that is newer */
    bool once;           /* pattern: nothing else reads the value */
    bool optional;       /* pattern: VALUE may be an omitted input */
    bool commutes;       /* pattern: the two inputs may be swapped */
    bool compares;       /* GIVEN: the slot holds a number */
    const char *domain, *text; /* of the operator */
    union {
        double number;
        uint32_t inputs[2]; /* operator that a rule begins with: RULE_LETTER of what may produce its inputs, 1 for
                               nothing; 0, 0: not stated */
    };
    union {
        const struct rule_term *args;
        const int64_t *ints; /* of LIST */
    };
    const rule_attr *attrs;
    union {
        const uint8_t *types; /* [outputs] of a result: a dtype, or RULE_LIKE + the index of an input of that type */
        const char *why;      /* pattern: the near miss if this alone does not hold; NULL: not reported */
    };
} rule_term;

struct rule_match;
/* slots: the variables in the order of rule_conditions.def; number: a literal argument. Sets the variables that it
 * binds. */
typedef bool (*rule_condition_fn)(struct rule_match *match, const uint8_t *slots, double number);

typedef struct rule_condition {
    rule_condition_fn holds;
    const char *why; /* the near miss if it does not hold */
    uint8_t slots[4];
    double number;
} rule_condition;

typedef struct rewrite_rule {
    rule_term pattern;
    const rule_term *clauses; /* [clause_count] patterns of values that the pattern has bound */
    const rule_condition *conditions;
    const rule_term *results; /* [result_count] one for each output of the matched node */
    const char *refusal;      /* instead of results: the node is left as it is for this reason */
    const char *near_miss;    /* what is not rewritten, if a near miss is to be reported: "a norm is not fused" */
    uint8_t clause_count, condition_count, result_count;
    uint8_t slot_count; /* variables */
    uint8_t opset;      /* the newest opset of ai.onnx that the results need */
} rewrite_rule;

/* The rules that may begin at an operator, by their indexes in the set. */
typedef struct rule_anchor {
    const char *op_type;
    uint32_t count;
    const uint16_t *rules;
} rule_anchor;

typedef struct rule_set {
    const rewrite_rule *rules;
    const rule_anchor *anchors; /* [anchor_count] sorted by op_type */
    uint32_t anchor_count;
    uint32_t letters; /* RULE_LETTER of all anchors */
    bool decomposes;  /* level 0: no provider runs the matched nodes */
} rule_set;

/* The variables while a rule is matched. Slot 0 is output 0 of the node, "out". */
typedef struct rule_match {
    struct rewrite *rewrite;
    graph_node *node;
    uint32_t values[RULE_SLOTS];
    double numbers[RULE_SLOTS];
    uint8_t choices[RULE_CHOICES], options[RULE_CHOICES]; /* the decisions of this attempt, and how many each has */
    uint32_t depth, at;                                   /* decisions made, and those that this attempt has used */
    bool forgives;                                        /* look for a near miss: one check may fail */
    uint32_t misses;
    const char *why;     /* of the check that failed */
    uint32_t letters[2]; /* RULE_LETTER of the producers of inputs 0 and 1; 1: no producer */
} rule_match;

/* Applies the first rule of the set that matches the node. */
INLAY_NODISCARD inlay_status rules_apply(const rule_set *set, struct rewrite *rewrite, graph_node *node);
/* Returns true if a rule of the set begins at that operator. */
bool rules_match_op(const rule_set *set, const char *domain, const char *op_type);
/* Replaces the matched node by the results of the rule (rule_results.c). */
INLAY_NODISCARD inlay_status rule_replace(const rewrite_rule *rule, rule_match *match, bool decomposes);

extern const rule_set rule_set_contributed;

#define CONDITION(name, arguments, why) bool rule_if_##name(rule_match *match, const uint8_t *slots, double number);
#include "passes/rule_conditions.def"
#undef CONDITION
#endif
