/* Parser of templates: expressions, with the precedences of Jinja. */
#include "texts/template/template_parse.h"

bool parser_fail(struct parser *parser, const char *what, const struct value *text)
{
    bool named = text != NULL && text->kind == VALUE_TEXT;

    parser->machine->line = parser->at->line;
    return machine_fail(parser->machine, INLAY_UNSUPPORTED, what, named ? text->text : "", named ? text->count : 0);
}

bool parser_unexpected(struct parser *parser)
{
    return parser->at->kind == TOKEN_CLOSE || parser->at->kind == TOKEN_END
               ? parser_fail(parser, "a tag that ends too early", NULL)
               : parser_fail(parser, "unexpected text:", &parser->at->text);
}

struct node *parser_make(struct parser *parser, node_kind kind)
{
    struct node *made = machine_memory(parser->machine, sizeof *made);

    if (made != NULL) {
        made->kind = kind;
        made->line = parser->at->line;
    }
    return made;
}

bool parser_is_name(const struct parser *parser, const char *word)
{
    return parser->at->kind == TOKEN_NAME && value_is(&parser->at->text, word);
}

bool parser_is_sign(const struct parser *parser, const char *sign)
{
    return parser->at->kind == TOKEN_SIGN && value_is(&parser->at->text, sign);
}

bool parser_take_name(struct parser *parser, const char *word)
{
    bool is = parser_is_name(parser, word);

    parser->at += is;
    return is;
}

bool parser_take_sign(struct parser *parser, const char *sign)
{
    bool is = parser_is_sign(parser, sign);

    parser->at += is;
    return is;
}

bool parser_want_sign(struct parser *parser, const char *sign)
{
    return parser_take_sign(parser, sign) || parser_unexpected(parser);
}

static struct node *read_unary(struct parser *parser, bool with_filters);

/* Expressions separated by commas up to the sign. Those of arguments may have names. */
static bool read_items(struct parser *parser, const char *close, bool named, struct node **out)
{
    struct node **end = out;

    while (!parser_take_sign(parser, close)) {
        struct node *one;

        if (named && parser->at->kind == TOKEN_NAME && parser->at[1].kind == TOKEN_SIGN &&
            value_is(&parser->at[1].text, "=")) {
            one = parser_make(parser, NODE_ARGUMENT);
            if (one == NULL)
                return false;
            one->text = parser->at->text;
            parser->at += 2;
            one->left = expression_read(parser);
            if (one->left == NULL)
                return false;
        } else {
            one = expression_read(parser);
        }
        if (one == NULL ||
            (!parser_take_sign(parser, ",") && !parser_is_sign(parser, close) && !parser_unexpected(parser)))
            return false;
        *end = one;
        end = &one->next;
    }
    return true;
}

/* A list of the expressions `first, ...`, if a comma follows. */
struct node *expression_read_tuple(struct parser *parser, struct node *first, struct node *(*read)(struct parser *))
{
    struct node *list, **end;

    if (first == NULL || !parser_is_sign(parser, ","))
        return first;
    list = parser_make(parser, NODE_LIST);
    if (list == NULL)
        return NULL;
    list->list = first;
    end = &first->next;
    while (parser_take_sign(parser, ",")) {
        if (parser->at->kind == TOKEN_CLOSE || parser_is_sign(parser, ")") || parser_is_sign(parser, "="))
            break;
        *end = read(parser);
        if (*end == NULL)
            return NULL;
        end = &(*end)->next;
    }
    return list;
}

static struct node *read_map(struct parser *parser)
{
    struct node *map = parser_make(parser, NODE_MAP), **end = map != NULL ? &map->list : NULL;

    while (map != NULL && !parser_take_sign(parser, "}")) {
        for (int i = 0; i < 2; i++) {
            *end = expression_read(parser);
            if (*end == NULL || (i == 0 && !parser_want_sign(parser, ":")))
                return NULL;
            end = &(*end)->next;
        }
        if (!parser_take_sign(parser, ",") && !parser_is_sign(parser, "}")) {
            (void)parser_unexpected(parser);
            return NULL;
        }
    }
    return map;
}

/* Strings that follow each other are one. */
static struct node *read_constant(struct parser *parser)
{
    struct node *constant = parser_make(parser, NODE_CONSTANT);
    struct strbuf whole = { 0 };

    if (constant == NULL)
        return NULL;
    constant->text = parser->at++->text;
    if (constant->text.kind != VALUE_TEXT || parser->at->kind != TOKEN_CONSTANT)
        return constant;
    strbuf_add(&whole, constant->text.text, constant->text.count);
    for (; parser->at->kind == TOKEN_CONSTANT && parser->at->text.kind == VALUE_TEXT; parser->at++)
        strbuf_add(&whole, parser->at->text.text, parser->at->text.count);
    return machine_take(parser->machine, &whole, &constant->text) ? constant : NULL;
}

static struct node *read_word(struct parser *parser)
{
    static const char *const words[] = { "true", "True", "false", "False", "none", "None" };
    struct node *made = parser_make(parser, NODE_NAME);

    if (made == NULL)
        return NULL;
    for (int i = 0; i < 6; i++)
        if (parser_is_name(parser, words[i])) {
            made->kind = NODE_CONSTANT;
            made->text = i < 4 ? bool_value(i < 2) : (struct value){ .kind = VALUE_NONE };
            parser->at++;
            return made;
        }
    made->text = parser->at++->text;
    return made;
}

static struct node *read_primary(struct parser *parser)
{
    struct node *made;

    if (parser->at->kind == TOKEN_CONSTANT)
        return read_constant(parser);
    if (parser->at->kind == TOKEN_NAME)
        return read_word(parser);
    if (parser_take_sign(parser, "{"))
        return read_map(parser);
    if (parser_take_sign(parser, "[")) {
        made = parser_make(parser, NODE_LIST);
        return made != NULL && read_items(parser, "]", false, &made->list) ? made : NULL;
    }
    if (parser_take_sign(parser, "(")) {
        if (parser_take_sign(parser, ")"))
            return parser_make(parser, NODE_LIST);
        made = expression_read_tuple(parser, expression_read(parser), expression_read);
        return made != NULL && parser_want_sign(parser, ")") ? made : NULL;
    }
    (void)parser_unexpected(parser);
    return NULL;
}

/* [i], or [from:to:step], all parts of which may be missing. */
static struct node *read_index(struct parser *parser, struct node *left)
{
    struct node *made = parser_make(parser, NODE_SLICE), **end = made != NULL ? &made->list : NULL;

    for (int i = 0; made != NULL && i < 3; i++) {
        bool missing = parser_is_sign(parser, ":") || parser_is_sign(parser, "]");

        *end = missing ? parser_make(parser, NODE_NOTHING) : expression_read(parser);
        if (*end == NULL)
            return NULL;
        if (i == 0 && !missing && parser_take_sign(parser, "]")) {
            made->kind = NODE_INDEX;
            made->right = made->list;
            made->left = left;
            return made;
        }
        end = &(*end)->next;
        if (i < 2 && !parser_take_sign(parser, ":") && (i == 0 || !parser_is_sign(parser, "]"))) {
            (void)parser_unexpected(parser);
            return NULL;
        }
    }
    if (made != NULL)
        made->left = left;
    return made != NULL && parser_want_sign(parser, "]") ? made : NULL;
}

static struct node *read_postfix(struct parser *parser, struct node *left)
{
    while (left != NULL) {
        struct node *made;

        if (parser_take_sign(parser, ".")) {
            made = parser_make(parser, NODE_ATTRIBUTE);
            if (made == NULL || (parser->at->kind != TOKEN_NAME && !value_is_whole(&parser->at->text))) {
                (void)parser_unexpected(parser);
                return NULL;
            }
            made->kind = parser->at->kind == TOKEN_NAME ? NODE_ATTRIBUTE : NODE_INDEX; /* pair.0 */
            if (made->kind == NODE_INDEX)
                made->right = read_constant(parser);
            else
                made->text = parser->at++->text;
            made->left = left;
        } else if (parser_take_sign(parser, "[")) {
            made = read_index(parser, left);
        } else if (parser_take_sign(parser, "(")) {
            made = parser_make(parser, NODE_CALL);
            if (made == NULL || !read_items(parser, ")", true, &made->list))
                return NULL;
            made->left = left;
        } else {
            return left;
        }
        left = made;
    }
    return NULL;
}

/* The name of a filter or test after its sign, and arguments in brackets. */
struct node *expression_read_filter(struct parser *parser, node_kind kind, struct node *left)
{
    struct node *made = parser_make(parser, kind);

    if (made == NULL || (parser->at->kind != TOKEN_NAME && !parser_unexpected(parser)))
        return NULL;
    made->left = left;
    made->text = parser->at++->text;
    return !parser_take_sign(parser, "(") || read_items(parser, ")", true, &made->list) ? made : NULL;
}

/* A test may have one argument without brackets: `is divisibleby 3`. */
static struct node *read_test(struct parser *parser, struct node *left)
{
    static const char *const ends[] = { "else", "or", "and", "is", "if", "not", "in" };
    bool negated = parser_take_name(parser, "not"), ends_here = false;
    bool bracket =
        parser->at->kind == TOKEN_NAME && parser->at[1].kind == TOKEN_SIGN && value_is(&parser->at[1].text, "(");
    struct node *made = expression_read_filter(parser, NODE_TEST, left);

    if (made == NULL)
        return NULL;
    made->negated = negated;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        ends_here |= parser_is_name(parser, ends[i]);
    if (bracket || ends_here ||
        (parser->at->kind != TOKEN_NAME && parser->at->kind != TOKEN_CONSTANT && !parser_is_sign(parser, "[") &&
         !parser_is_sign(parser, "{")))
        return made;
    made->list = read_postfix(parser, read_primary(parser));
    return made->list != NULL ? made : NULL;
}

struct node *expression_read_filters(struct parser *parser, struct node *left)
{
    while (left != NULL)
        if (parser_take_sign(parser, "|"))
            left = expression_read_filter(parser, NODE_FILTER, left);
        else if (parser_take_name(parser, "is"))
            left = read_test(parser, left);
        else if (parser_is_sign(parser, "(") || parser_is_sign(parser, ".") || parser_is_sign(parser, "["))
            left = read_postfix(parser, left);
        else
            break;
    return left;
}

static struct node *read_sign(struct parser *parser, bool minus)
{
    struct node *made = parser_make(parser, minus ? NODE_MINUS : NODE_PLUS);

    if (made != NULL)
        made->left = read_unary(parser, false);
    return made != NULL && made->left != NULL ? made : NULL;
}

static struct node *read_unary(struct parser *parser, bool with_filters)
{
    struct node *made = NULL;

    if (!machine_enter(parser->machine))
        return NULL;
    if (parser_take_sign(parser, "-"))
        made = read_sign(parser, true);
    else if (parser_take_sign(parser, "+"))
        made = read_sign(parser, false);
    else
        made = read_postfix(parser, read_primary(parser));
    if (with_filters)
        made = expression_read_filters(parser, made);
    machine_leave(parser->machine);
    return made;
}

static struct node *binary(struct parser *parser, sign_kind sign, struct node *left, struct node *right)
{
    struct node *made = left != NULL && right != NULL ? parser_make(parser, NODE_BINARY) : NULL;

    if (made != NULL) {
        made->sign = sign;
        made->left = left;
        made->right = right;
    }
    return made;
}

/* Levels of binary operators, from those that bind least: + -, ~, * / // %, **. */
static struct node *read_level(struct parser *parser, int level)
{
    static const struct {
        int level;
        const char *text;
        sign_kind sign;
    } signs[] = { { 0, "+", SIGN_ADD },       { 0, "-", SIGN_SUBTRACT }, { 1, "~", SIGN_JOIN },
                  { 2, "*", SIGN_MULTIPLY },  { 2, "/", SIGN_DIVIDE },   { 2, "//", SIGN_FLOOR_DIVIDE },
                  { 2, "%", SIGN_REMAINDER }, { 3, "**", SIGN_POWER } };
    struct node *left = level == 4 ? read_unary(parser, true) : read_level(parser, level + 1);
    bool more = level < 4;

    while (left != NULL && more) {
        more = false;
        for (size_t i = 0; i < sizeof signs / sizeof *signs && !more; i++)
            if (signs[i].level == level && parser_take_sign(parser, signs[i].text)) {
                left = binary(parser, signs[i].sign, left, read_level(parser, level + 1));
                more = true;
            }
    }
    return left;
}

static bool take_comparison(struct parser *parser, sign_kind *out)
{
    static const char *const signs[] = { "==", "!=", "<", "<=", ">", ">=" };

    for (int i = 0; i < 6; i++)
        if (parser_take_sign(parser, signs[i])) {
            *out = (sign_kind)(SIGN_EQUAL + i);
            return true;
        }
    *out = parser_is_name(parser, "not") ? SIGN_NOT_IN : SIGN_IN;
    if (*out == SIGN_NOT_IN && (parser->at[1].kind != TOKEN_NAME || !value_is(&parser->at[1].text, "in")))
        return false;
    return (*out == SIGN_NOT_IN && parser_take_name(parser, "not") && parser_take_name(parser, "in")) ||
           parser_take_name(parser, "in");
}

static struct node *read_comparison(struct parser *parser)
{
    struct node *left = read_level(parser, 0), *made = NULL, **end = NULL;
    sign_kind sign;

    while (left != NULL && take_comparison(parser, &sign)) {
        struct node *right;

        if (made == NULL) {
            made = parser_make(parser, NODE_COMPARE);
            if (made == NULL)
                return NULL;
            made->left = left;
            end = &made->list;
        }
        right = read_level(parser, 0);
        *end = binary(parser, sign, left, right);
        if (*end == NULL)
            return NULL;
        end = &(*end)->next;
    }
    return made != NULL ? made : left;
}

static struct node *read_not(struct parser *parser)
{
    struct node *made;

    if (!parser_is_name(parser, "not"))
        return read_comparison(parser);
    if (!machine_enter(parser->machine))
        return NULL;
    parser->at++;
    made = parser_make(parser, NODE_NOT);
    if (made != NULL)
        made->left = read_not(parser);
    machine_leave(parser->machine);
    return made != NULL && made->left != NULL ? made : NULL;
}

/* Operands that `read` reads, between words that make nodes of `kind`. */
static struct node *read_joined(struct parser *parser, struct node *(*read)(struct parser *), const char *word,
                                node_kind kind)
{
    struct node *left = read(parser);

    while (left != NULL && parser_take_name(parser, word)) {
        struct node *made = binary(parser, SIGN_ADD, left, read(parser));

        if (made != NULL)
            made->kind = kind;
        left = made;
    }
    return left;
}

static struct node *read_both(struct parser *parser)
{
    return read_joined(parser, read_not, "and", NODE_AND);
}

struct node *expression_read_either(struct parser *parser)
{
    return read_joined(parser, read_both, "or", NODE_OR);
}

struct node *expression_read(struct parser *parser)
{
    struct node *left;

    if (!machine_enter(parser->machine))
        return NULL;
    left = expression_read_either(parser);
    while (left != NULL && parser_take_name(parser, "if")) {
        struct node *made = binary(parser, SIGN_ADD, left, expression_read_either(parser));

        if (made != NULL) {
            made->kind = NODE_CHOICE;
            made->third =
                parser_take_name(parser, "else") ? expression_read(parser) : parser_make(parser, NODE_NOTHING);
        }
        left = made != NULL && made->third != NULL ? made : NULL;
    }
    machine_leave(parser->machine);
    return left;
}
