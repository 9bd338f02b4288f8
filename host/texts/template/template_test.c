/* The tests of templates: `value is name`. */
#include "texts/template/template_internal.h"

typedef enum test_of {
    OF_KIND, /* the kinds of `kinds`, bits */
    OF_SIGN, /* a comparison with the argument */
    OF_TRUE,
    OF_FALSE,
    OF_ODD,
    OF_EVEN,
    OF_DIVISIBLE,
    OF_UPPER,
    OF_LOWER
} test_of;

#define KIND(name) (1u << VALUE_##name)

static const struct {
    const char *name;
    test_of of;
    uint32_t kinds;
    sign_kind sign;
} tests[] = {
    { .name = "defined", .kinds = ~KIND(UNDEFINED) },
    { .name = "undefined", .kinds = KIND(UNDEFINED) },
    { .name = "none", .kinds = KIND(NONE) },
    { .name = "None", .kinds = KIND(NONE) },
    { .name = "string", .kinds = KIND(TEXT) },
    { .name = "number", .kinds = KIND(NUMBER) | KIND(REAL) | KIND(BOOL) },
    { .name = "integer", .kinds = KIND(NUMBER) },
    { .name = "float", .kinds = KIND(REAL) },
    { .name = "boolean", .kinds = KIND(BOOL) },
    { .name = "mapping", .kinds = KIND(MAP) },
    { .name = "sequence", .kinds = KIND(TEXT) | KIND(LIST) | KIND(MAP) | KIND(UNDEFINED) },
    { .name = "iterable", .kinds = KIND(TEXT) | KIND(LIST) | KIND(MAP) | KIND(UNDEFINED) },
    { .name = "callable", .kinds = KIND(MACRO) | KIND(FUNCTION) },
    { .name = "true", .of = OF_TRUE },
    { .name = "True", .of = OF_TRUE },
    { .name = "false", .of = OF_FALSE },
    { .name = "False", .of = OF_FALSE },
    { .name = "odd", .of = OF_ODD },
    { .name = "even", .of = OF_EVEN },
    { .name = "divisibleby", .of = OF_DIVISIBLE },
    { .name = "upper", .of = OF_UPPER },
    { .name = "lower", .of = OF_LOWER },
    { .name = "eq", .of = OF_SIGN, .sign = SIGN_EQUAL },
    { .name = "equalto", .of = OF_SIGN, .sign = SIGN_EQUAL },
    { .name = "==", .of = OF_SIGN, .sign = SIGN_EQUAL },
    { .name = "sameas", .of = OF_SIGN, .sign = SIGN_EQUAL },
    { .name = "ne", .of = OF_SIGN, .sign = SIGN_UNEQUAL },
    { .name = "!=", .of = OF_SIGN, .sign = SIGN_UNEQUAL },
    { .name = "lt", .of = OF_SIGN, .sign = SIGN_LESS },
    { .name = "lessthan", .of = OF_SIGN, .sign = SIGN_LESS },
    { .name = "<", .of = OF_SIGN, .sign = SIGN_LESS },
    { .name = "le", .of = OF_SIGN, .sign = SIGN_LESS_EQUAL },
    { .name = "<=", .of = OF_SIGN, .sign = SIGN_LESS_EQUAL },
    { .name = "gt", .of = OF_SIGN, .sign = SIGN_GREATER },
    { .name = "greaterthan", .of = OF_SIGN, .sign = SIGN_GREATER },
    { .name = ">", .of = OF_SIGN, .sign = SIGN_GREATER },
    { .name = "ge", .of = OF_SIGN, .sign = SIGN_GREATER_EQUAL },
    { .name = ">=", .of = OF_SIGN, .sign = SIGN_GREATER_EQUAL },
    { .name = "in", .of = OF_SIGN, .sign = SIGN_IN },
};

/* A text with letters of this case only. */
static bool has_case(const struct value *text, bool upper)
{
    bool any = false;

    for (size_t i = 0; text->kind == VALUE_TEXT && i < text->count; i++) {
        char c = text->text[i];
        bool is_upper = c >= 'A' && c <= 'Z', is_lower = c >= 'a' && c <= 'z';

        if (upper ? is_lower : is_upper)
            return false;
        any |= is_upper || is_lower;
    }
    return any;
}

bool value_test(struct machine *machine, const struct value *name, const struct value *tested,
                const struct arguments *arguments, bool *out)
{
    const struct value *argument = argument_get(arguments, 0, NULL);
    size_t i = 0;
    int64_t divisor = 2;

    while (i < sizeof tests / sizeof *tests && !value_is(name, tests[i].name))
        i++;
    *out = false;
    if (i == sizeof tests / sizeof *tests)
        return machine_fail(machine, INLAY_UNSUPPORTED, "the test", name->text, name->count);
    switch (tests[i].of) {
    case OF_KIND:
        *out = (tests[i].kinds >> tested->kind & 1) != 0;
        return true;
    case OF_SIGN:
        if (argument == NULL)
            return machine_fail(machine, INLAY_UNSUPPORTED, "without an argument, the test", name->text, name->count);
        return value_compare(machine, tests[i].sign, tested, argument, out);
    case OF_TRUE:
    case OF_FALSE:
        *out = tested->kind == VALUE_BOOL && tested->number == (tests[i].of == OF_TRUE);
        return true;
    case OF_UPPER:
    case OF_LOWER:
        *out = has_case(tested, tests[i].of == OF_UPPER);
        return true;
    case OF_ODD:
    case OF_EVEN:
    case OF_DIVISIBLE:
        if (tests[i].of == OF_DIVISIBLE)
            divisor = argument_number(arguments, 0, NULL, 0);
        if (!value_is_whole(tested) || divisor == 0 || divisor == -1)
            return machine_fail(machine, INLAY_UNSUPPORTED, "this use of the test", name->text, name->count);
        *out = (tested->number % divisor != 0) == (tests[i].of == OF_ODD);
        return true;
    }
    return false;
}
