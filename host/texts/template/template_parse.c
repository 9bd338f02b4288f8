/* Parser of templates: statements. */
#include "texts/template/template_parse.h"

static bool want_close(struct parser *parser)
{
    if (parser->at->kind != TOKEN_CLOSE)
        return parser_unexpected(parser);
    parser->at++;
    return true;
}

/* Statements up to a block tag with one of the words, which is not consumed, or up to the end (words NULL). */
static bool read_statements(struct parser *parser, const char *const *words, struct node **out);

/* As above; the last word ends the block, and is consumed with its tag. name: of the statement, for messages. */
static bool read_body(struct parser *parser, const char *end, const char *name, struct node **out)
{
    const char *const words[] = { end, NULL };
    const struct value text = text_value(name, strlen(name));

    if (!read_statements(parser, words, out))
        return false;
    if (!parser_take_name(parser, end))
        return parser_fail(parser, "missing end tag of", &text);
    if (parser->at->kind == TOKEN_NAME) /* {% endmacro name %} */
        parser->at++;
    return want_close(parser);
}

static struct node *read_target(struct parser *parser)
{
    struct node *made = parser_make(parser, NODE_NAME);

    if (made == NULL || (parser->at->kind != TOKEN_NAME && !parser_unexpected(parser)))
        return NULL;
    made->text = parser->at++->text;
    return made;
}

/* Names, also in brackets: `a, b`. */
static bool read_targets(struct parser *parser, struct node **out)
{
    bool bracket = parser_take_sign(parser, "(");
    struct node *first = read_target(parser), *list = expression_read_tuple(parser, first, read_target);

    if (list == NULL || (bracket && !parser_want_sign(parser, ")")))
        return false;
    *out = list;
    return true;
}

static bool read_for(struct parser *parser, struct node *made)
{
    static const char *const words[] = { "else", "endfor", NULL };
    const struct value name = text_value("for", 3);

    made->kind = NODE_FOR;
    if (!read_targets(parser, &made->list))
        return false;
    if (!parser_take_name(parser, "in"))
        return parser_unexpected(parser);
    made->left = expression_read_tuple(parser, expression_read_either(parser), expression_read_either);
    if (made->left == NULL)
        return false;
    if (parser_take_name(parser, "if")) {
        made->right = expression_read(parser);
        if (made->right == NULL)
            return false;
    }
    if (parser_is_name(parser, "recursive"))
        return parser_fail(parser, "a loop that is", &parser->at->text);
    parser->machine->loops++;
    if (!want_close(parser) || !read_statements(parser, words, &made->body))
        return false;
    parser->machine->loops--;
    if (parser_take_name(parser, "else"))
        return want_close(parser) && read_body(parser, "endfor", "for", &made->other);
    return (parser_take_name(parser, "endfor") || parser_fail(parser, "missing end tag of", &name)) &&
           want_close(parser);
}

static bool read_if(struct parser *parser, struct node *made)
{
    static const char *const words[] = { "elif", "else", "endif", NULL };
    const struct value name = text_value("if", 2);

    for (;;) {
        made->kind = NODE_IF;
        made->left = expression_read(parser);
        if (made->left == NULL || !want_close(parser) || !read_statements(parser, words, &made->body))
            return false;
        if (!parser_take_name(parser, "elif"))
            break;
        made->other = parser_make(parser, NODE_IF);
        made = made->other;
        if (made == NULL)
            return false;
    }
    if (parser_take_name(parser, "else"))
        return want_close(parser) && read_body(parser, "endif", "if", &made->other);
    return (parser_take_name(parser, "endif") || parser_fail(parser, "missing end tag of", &name)) &&
           want_close(parser);
}

/* set a = x, set a, b = x, set a.b = x, set a | filter ... endset. */
static bool read_set(struct parser *parser, struct node *made)
{
    made->kind = NODE_SET;
    if (!read_targets(parser, &made->list))
        return false;
    if (made->list->kind == NODE_NAME && parser_take_sign(parser, ".")) {
        made->list->kind = NODE_ATTRIBUTE;
        made->list->left = read_target(parser);
        if (made->list->left == NULL)
            return false;
    }
    if (parser_take_sign(parser, "=")) {
        made->left = expression_read_tuple(parser, expression_read(parser), expression_read);
        return made->left != NULL && want_close(parser);
    }
    made->kind = NODE_SET_BLOCK;
    made->left = parser_make(parser, NODE_NOTHING);
    made->left = expression_read_filters(parser, made->left);
    return made->left != NULL && want_close(parser) && read_body(parser, "endset", "set", &made->body);
}

/* (a, b=1, ...) of macros and call blocks. */
static bool read_parameters(struct parser *parser, struct node **out)
{
    struct node **end = out;

    while (!parser_take_sign(parser, ")")) {
        *end = read_target(parser);
        if (*end == NULL)
            return false;
        if (parser_take_sign(parser, "=")) {
            (*end)->left = expression_read(parser);
            if ((*end)->left == NULL)
                return false;
        }
        end = &(*end)->next;
        if (!parser_take_sign(parser, ",") && !parser_is_sign(parser, ")"))
            return parser_unexpected(parser);
    }
    return true;
}

static bool read_macro(struct parser *parser, struct node *made)
{
    uint32_t loops = parser->machine->loops;
    bool good;

    made->kind = NODE_MACRO;
    if (parser->at->kind != TOKEN_NAME)
        return parser_unexpected(parser);
    made->text = parser->at++->text;
    parser->machine->loops = 0;
    good = parser_want_sign(parser, "(") && read_parameters(parser, &made->list) && want_close(parser) &&
           read_body(parser, "endmacro", "macro", &made->body);
    parser->machine->loops = loops;
    return good;
}

static bool read_call_block(struct parser *parser, struct node *made)
{
    uint32_t loops = parser->machine->loops;
    bool good;

    made->kind = NODE_CALL_BLOCK;
    if (parser_take_sign(parser, "(") && !read_parameters(parser, &made->list))
        return false;
    made->left = expression_read(parser);
    if (made->left == NULL || (made->left->kind != NODE_CALL && !parser_unexpected(parser)))
        return false;
    parser->machine->loops = 0;
    good = want_close(parser) && read_body(parser, "endcall", "call", &made->body);
    parser->machine->loops = loops;
    return good;
}

static bool read_filter_block(struct parser *parser, struct node *made)
{
    made->kind = NODE_FILTER_BLOCK;
    made->left = parser_make(parser, NODE_NOTHING);
    made->left = made->left != NULL ? expression_read_filter(parser, NODE_FILTER, made->left) : NULL;
    made->left = expression_read_filters(parser, made->left);
    return made->left != NULL && want_close(parser) && read_body(parser, "endfilter", "filter", &made->body);
}

static bool read_with(struct parser *parser, struct node *made)
{
    struct node **end = &made->list;

    made->kind = NODE_WITH;
    while (parser->at->kind != TOKEN_CLOSE) {
        *end = read_target(parser);
        if (*end == NULL || !parser_want_sign(parser, "="))
            return false;
        (*end)->left = expression_read(parser);
        if ((*end)->left == NULL)
            return false;
        end = &(*end)->next;
        if (!parser_take_sign(parser, ",") && parser->at->kind != TOKEN_CLOSE)
            return parser_unexpected(parser);
    }
    return want_close(parser) && read_body(parser, "endwith", "with", &made->body);
}

/* The part of the text that the assistant wrote; of no effect here. */
static bool read_generation(struct parser *parser, struct node *made)
{
    made->kind = NODE_GROUP;
    return want_close(parser) && read_body(parser, "endgeneration", "generation", &made->body);
}

static bool read_jump(struct parser *parser, struct node *made)
{
    const struct value *word = &parser->at[-1].text;

    made->kind = value_is(word, "break") ? NODE_BREAK : NODE_CONTINUE;
    return (parser->machine->loops > 0 || parser_fail(parser, "outside of a loop:", word)) && want_close(parser);
}

static struct node *read_block(struct parser *parser)
{
    static const struct {
        const char *word;
        bool (*read)(struct parser *parser, struct node *made);
    } statements[] = { { "for", read_for },         { "if", read_if },
                       { "set", read_set },         { "macro", read_macro },
                       { "call", read_call_block }, { "filter", read_filter_block },
                       { "with", read_with },       { "generation", read_generation },
                       { "break", read_jump },      { "continue", read_jump } };
    struct node *made = parser_make(parser, NODE_GROUP);

    for (size_t i = 0; made != NULL && i < sizeof statements / sizeof *statements; i++)
        if (parser_take_name(parser, statements[i].word))
            return statements[i].read(parser, made) ? made : NULL;
    if (made != NULL && parser->at->kind == TOKEN_NAME)
        (void)parser_fail(parser, "the statement", &parser->at->text);
    else if (made != NULL)
        (void)parser_fail(parser, "a statement without a keyword", NULL);
    return NULL;
}

static struct node *read_print(struct parser *parser)
{
    struct node *made = parser_make(parser, NODE_PRINT);

    if (made == NULL)
        return NULL;
    made->left = expression_read_tuple(parser, expression_read(parser), expression_read);
    return made->left != NULL && want_close(parser) ? made : NULL;
}

static bool read_statements(struct parser *parser, const char *const *words, struct node **out)
{
    struct node **end = out;
    bool good = machine_enter(parser->machine);

    while (good && parser->at->kind != TOKEN_END) {
        struct node *made;

        if (parser->at->kind == TOKEN_TEXT) {
            made = parser_make(parser, NODE_TEXT);
            if (made != NULL)
                made->text = parser->at->text;
            parser->at++;
        } else if (parser->at->kind == TOKEN_PRINT) {
            parser->at++;
            made = read_print(parser);
        } else {
            parser->at++;
            for (size_t i = 0; words != NULL && words[i] != NULL; i++)
                if (parser_is_name(parser, words[i])) {
                    machine_leave(parser->machine);
                    return true;
                }
            made = read_block(parser);
        }
        good = made != NULL;
        if (good) {
            *end = made;
            end = &made->next;
        }
    }
    machine_leave(parser->machine);
    return good;
}

bool template_parse(struct machine *machine, const char *form, size_t bytes, struct node **out)
{
    struct token *tokens;
    struct parser parser = { .machine = machine };

    *out = NULL;
    if (!template_tokens(machine, form, bytes, &tokens))
        return false;
    parser.at = tokens;
    return read_statements(&parser, NULL, out);
}
