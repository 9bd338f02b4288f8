/* modelkit/opset_parts.h - declarations shared by opset*.c; private to them. */
#ifndef MODELKIT_OPSET_PARTS_H
#define MODELKIT_OPSET_PARTS_H
#include "modelkit/edit.h"
#include "modelkit/opset.h"

/* The conversion of one node to another opset. */
struct conversion {
    struct editor *editor;
    graph_node *node;
    int64_t opset;
    const char *why; /* reason why the opset cannot express the node, or NULL */
};

/* Operator and name of the node. */
const char *conversion_op(const struct conversion *conversion);
const char *conversion_name(const struct conversion *conversion);
/* The operator's row at the opset; NULL: no such operator. */
const op_row *conversion_row(const struct conversion *conversion);
/* Removes an attribute; later ones move up. */
void conversion_drop_attr(struct conversion *conversion, const char *name);
/* Removes the inputs from index `count` on. */
void conversion_cut_inputs(struct conversion *conversion, uint32_t count);
/* Adds an int64 constant; its name is the node's name with the suffix. */
uint32_t conversion_ints(struct conversion *conversion, const char *suffix, const int64_t *values, uint32_t count);
/* Adds a constant of rank 0 with the type of input 0. INLAY_NONE: the type cannot represent the value
 * (conversion->why), or out of memory. */
uint32_t conversion_number(struct conversion *conversion, const char *suffix, double value);
/* Input i of the node, INLAY_NONE if absent. */
uint32_t conversion_input(const struct conversion *conversion, uint32_t i);
/* The rank of input 0, or INLAY_RANK_UNKNOWN. */
uint32_t conversion_rank(const struct conversion *conversion);
/* Replaces the output of the node by a new value and returns that value, so that a node that reads it can produce the
 * old output. */
uint32_t conversion_take_output(struct conversion *conversion, const char *suffix);

/* Does the attribute have that text? otherwise: the result if it is not stated. */
bool conversion_is_text(const graph_node *node, const char *attr, const char *text, bool otherwise);

/* Gives a node from before opset 7 the attributes and inputs that it has in opset 7, or in a version in between that is
 * known to the conversions of opset.c. False: not possible (conversion->why). */
bool conversion_raise_early(struct conversion *conversion);

/* Makes negative axes, which opset 11 introduced, non-negative. */
bool conversion_lower_axes(struct conversion *conversion);
/* Do all inputs have the shape of the first? */
bool conversion_has_one_shape(struct conversion *conversion);

/* Converts the node to the earlier opset. False: conversion->why holds the reason. */
bool conversion_lower(struct conversion *conversion);

/* Replaces the node by several operators of the earlier opset, which lacks this operator. False: not possible
 * (conversion->why may hold the reason). */
bool conversion_expand(struct conversion *conversion);
#endif
