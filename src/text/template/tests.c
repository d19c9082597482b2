/* tests.c - what may stand behind `is`, and their table. */
#include <math.h>

#include "functions.h"

#define TEST(name, condition)                                                  \
    static ls_jvalue name(ls_jrender *r, ls_jvalue of, const ls_jarguments *a) \
    {                                                                          \
        (void)r;                                                               \
        (void)a;                                                               \
        return ls_jbool(condition);                                            \
    }

/* The remainder of a whole number; its sign counts nothing here. */
static int64_t remainder_of(ls_jrender *r, ls_jvalue v, int64_t by)
{
    if ((v.kind != LS_JINT && v.kind != LS_JBOOL) || by == 0) {
        ls_jfail(r, LS_E_FORMAT, "a whole number is needed, and not '%s'", by ? ls_jtype(v) : "0");
        return 0;
    }
    return by == -1 ? 0 : v.i % by;
}

TEST(is_boolean, of.kind == LS_JBOOL)
TEST(is_callable, of.kind == LS_JMACRO || of.kind == LS_JFUNCTION || of.kind == LS_JMETHOD)
TEST(is_defined, of.kind != LS_JUNDEFINED)
TEST(is_divisible, remainder_of(r, of, ls_jargument_int(r, a, 0, 0)) == 0)
TEST(is_equal, ls_jequal(r, of, a->values[0]))
TEST(is_even, remainder_of(r, of, 2) == 0)
TEST(is_false, of.kind == LS_JBOOL && !of.i)
TEST(is_float, of.kind == LS_JFLOAT)
TEST(is_greater, ls_jcompare(r, of, a->values[0]) > 0)
TEST(is_greater_or_equal, ls_jcompare(r, of, a->values[0]) >= 0)
TEST(is_in, ls_jcontains(r, a->values[0], of))
TEST(is_integer, of.kind == LS_JINT)
TEST(is_iterable, of.kind == LS_JUNDEFINED || of.kind == LS_JTEXT || ls_jis_list(of) || of.kind == LS_JDICT ||
                      of.kind == LS_JLOOP)
TEST(is_less, ls_jcompare(r, of, a->values[0]) < 0)
TEST(is_less_or_equal, ls_jcompare(r, of, a->values[0]) <= 0)
TEST(is_mapping, of.kind == LS_JDICT)
TEST(is_none, of.kind == LS_JNONE)
TEST(is_number, ls_jis_number(of))
TEST(is_odd, remainder_of(r, of, 2) != 0)
TEST(is_sequence, of.kind == LS_JUNDEFINED || of.kind == LS_JTEXT || of.kind == LS_JLIST ||
                      of.kind == LS_JTUPLE || of.kind == LS_JDICT)
TEST(is_string, of.kind == LS_JTEXT)
TEST(is_true, of.kind == LS_JBOOL && of.i)
TEST(is_undefined, of.kind == LS_JUNDEFINED)
TEST(is_unequal, !ls_jequal(r, of, a->values[0]))

static const ls_jfunction TABLE[] = {
    { "boolean", "", is_boolean, 0 },
    { "callable", "", is_callable, 0 },
    { "defined", "", is_defined, 0 },
    { "divisibleby", "num", is_divisible, 0 },
    { "eq", "other", is_equal, 0 },
    { "equalto", "other", is_equal, 0 },
    { "even", "", is_even, 0 },
    { "false", "", is_false, 0 },
    { "float", "", is_float, 0 },
    { "ge", "other", is_greater_or_equal, 0 },
    { "greaterthan", "other", is_greater, 0 },
    { "gt", "other", is_greater, 0 },
    { "in", "seq", is_in, 0 },
    { "integer", "", is_integer, 0 },
    { "iterable", "", is_iterable, 0 },
    { "le", "other", is_less_or_equal, 0 },
    { "lessthan", "other", is_less, 0 },
    { "lt", "other", is_less, 0 },
    { "mapping", "", is_mapping, 0 },
    { "ne", "other", is_unequal, 0 },
    { "none", "", is_none, 0 },
    { "number", "", is_number, 0 },
    { "odd", "", is_odd, 0 },
    { "sequence", "", is_sequence, 0 },
    { "string", "", is_string, 0 },
    { "true", "", is_true, 0 },
    { "undefined", "", is_undefined, 0 },
    { NULL, NULL, NULL, 0 },
};

const ls_jfunction *ls_jtest(const char *name) { return ls_jin_table(TABLE, name); }
