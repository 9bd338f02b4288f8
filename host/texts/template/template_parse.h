/* texts/template/template_parse.h - the parser's place in the tokens; expressions for statements. */
#ifndef TEXTS_TEMPLATE_PARSE_H
#define TEXTS_TEMPLATE_PARSE_H
#include "texts/template/template_tokens.h"

struct parser {
    struct machine *machine;
    const struct token *at;
};

/* template_expression.c. The functions that return a node return NULL after a failure. */
bool parser_fail(struct parser *parser, const char *what, const struct value *text);
/* Fails because of the token that comes next. */
bool parser_unexpected(struct parser *parser);
struct node *parser_make(struct parser *parser, node_kind kind);
/* Whether the word or sign comes next, and the same with consuming it. */
bool parser_is_name(const struct parser *parser, const char *word);
bool parser_is_sign(const struct parser *parser, const char *sign);
bool parser_take_name(struct parser *parser, const char *word);
bool parser_take_sign(struct parser *parser, const char *sign);
bool parser_want_sign(struct parser *parser, const char *sign);
struct node *expression_read(struct parser *parser);
/* Without `a if b else c`. */
struct node *expression_read_either(struct parser *parser);
/* A list of the expressions `first, ...`, if a comma follows. */
struct node *expression_read_tuple(struct parser *parser, struct node *first,
                                   struct node *(*read)(struct parser *parser));
/* expression_read_filter reads the name of a filter after its sign, and its arguments; expression_read_filters reads
 * the filters after `left`, which may be NULL. */
struct node *expression_read_filter(struct parser *parser, node_kind kind, struct node *left);
struct node *expression_read_filters(struct parser *parser, struct node *left);
#endif
