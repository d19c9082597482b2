/* message.c - send and receive: a value goes from one rank of a group to another, through a mailbox
 * (comm/collective.h). The pass passes/pipeline.c makes them after differentiation, so they have no gradient.
 */
#include "rules.h"

static ls_status infer_send(ls_infer *i)
{
    const ls_message_attrs *a = i->attrs;
    LS_RULE_CHECK(i, a->ranks >= 2 && a->peer >= 0 && a->peer < a->ranks, "to position %lld of %lld ranks",
                  (long long)a->peer, (long long)a->ranks);
    LS_RULE_CHECK(i, ls_type_equal(&i->in[0], &a->type), "sends a value of the type that is received");
    i->out[0] = LS_SCALAR(LS_I32); /* nobody reads it: nodes have a result */
    return LS_OK;
}

static ls_status infer_receive(ls_infer *i)
{
    const ls_message_attrs *a = i->attrs;
    LS_RULE_CHECK(i, a->ranks >= 2 && a->peer >= 0 && a->peer < a->ranks, "from position %lld of %lld ranks",
                  (long long)a->peer, (long long)a->ranks);
    i->out[0] = a->type;
    return LS_OK;
}

static ls_cost cost_message(const ls_infer *i)
{
    return (ls_cost){ .bytes = 2.0 * (double)ls_type_bytes(&((const ls_message_attrs *)i->attrs)->type) };
}

static const ls_attr_field FIELDS[] = { { "group", LS_FIELD_TEXT, offsetof(ls_message_attrs, group), NULL },
                                        { "unit", LS_FIELD_TEXT, offsetof(ls_message_attrs, unit), NULL },
                                        { "ranks", LS_FIELD_I64, offsetof(ls_message_attrs, ranks), NULL },
                                        { "peer", LS_FIELD_I64, offsetof(ls_message_attrs, peer), NULL },
                                        { "offset", LS_FIELD_I64, offsetof(ls_message_attrs, offset), NULL },
                                        { "number", LS_FIELD_I64, offsetof(ls_message_attrs, number), NULL },
                                        { "room", LS_FIELD_I64, offsetof(ls_message_attrs, room), NULL },
                                        { "type", LS_FIELD_TYPE, offsetof(ls_message_attrs, type), NULL },
                                        { 0 } };

const ls_op ls_op_send = {
    .name = "send",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_COLLECTIVE | LS_OP_EFFECT | LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_message_attrs),
    .fields = FIELDS,
    .infer = infer_send,
    .cost = cost_message,
    .summary = "Sends a value to another rank of a group.",
};
const ls_op ls_op_receive = {
    .name = "receive",
    .rule = LS_RULE_LATER,
    .n_out = 1,
    .flags = LS_OP_COLLECTIVE | LS_OP_EFFECT | LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_message_attrs),
    .fields = FIELDS,
    .infer = infer_receive,
    .cost = cost_message,
    .summary = "Receives a value that another rank of a group sends.",
};
