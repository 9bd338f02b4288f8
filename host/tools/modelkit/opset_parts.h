/* modelkit/opset_parts.h - what the files of the converter share; private to opset*.c. */
#ifndef MODELKIT_OPSET_PARTS_H
#define MODELKIT_OPSET_PARTS_H
#include "modelkit/edit.h"
#include "modelkit/opset.h"

/* A node on its way to another opset. */
struct conversion {
    struct editor *editor;
    graph_node *node;
    int64_t opset;
    const char *why; /* why it has no form there, or NULL */
};

const char *conversion_op(const struct conversion *conversion);
const char *conversion_name(const struct conversion *conversion);
/* The operator's row at the opset; NULL: there is none. */
const op_row *conversion_row(const struct conversion *conversion);
/* An attribute that the file states. */
const inlay_attr_info *conversion_stated(const graph_node *node, const char *name);
int64_t conversion_int(const graph_node *node, const char *name, int64_t otherwise);
/* Takes an attribute away; those that follow move up. */
void conversion_drop_attr(struct conversion *conversion, const char *name);
/* Takes inputs from i on away. */
void conversion_cut_inputs(struct conversion *conversion, uint32_t count);
/* A constant of integers; its name is the node's and the suffix. */
uint32_t conversion_ints(struct conversion *conversion, const char *suffix, const int64_t *values, uint32_t count);
/* A constant of rank 0 and of the type of input 0. INLAY_NONE: the type cannot hold it (conversion->why), or no memory.
 */
uint32_t conversion_number(struct conversion *conversion, const char *suffix, double value);
/* Value i of the node's inputs, INLAY_NONE where it has none. */
uint32_t conversion_input(const struct conversion *conversion, uint32_t i);
/* Is input i there, and a constant? *out_list (the arena's) gets it as integers. false: conversion->why says what is
 * wrong. */
bool conversion_constant_ints(struct conversion *conversion, uint32_t i, const char *what, int64_t **out_list,
                              uint32_t *out_count);
/* The rank of input 0; INLAY_RANK_UNKNOWN. */
uint32_t conversion_rank(const struct conversion *conversion);
bool conversion_is_one_of(const char *op, const char *const *names, size_t count);
/* Gives the node another output, which is returned, so that a node behind it can make what it made. */
uint32_t conversion_take_output(struct conversion *conversion, const char *suffix);

/* Is the attribute that text? otherwise: what it counts as where it is not stated. */
bool conversion_is_text(const graph_node *node, const char *attr, const char *text, bool otherwise);

/* ------------------------------------------------------------------ opset_fit.c */

/* Axes that count from the end, as they may since opset 11, count from the front. */
bool conversion_lower_axes(struct conversion *conversion);
/* Do all inputs have the shape of the first? */
bool conversion_has_one_shape(struct conversion *conversion);

/* ------------------------------------------------------------------ opset_lower.c */

/* True: the node has the form of the earlier opset. False: conversion->why says why it has none. */
bool conversion_lower(struct conversion *conversion);

/* ------------------------------------------------------------------ opset_expand.c */

/* The node as others of the earlier opset, which has no such operator. False: there are none (conversion->why may say
 * why). */
bool conversion_expand(struct conversion *conversion);
#endif
