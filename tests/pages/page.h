/* page.h - what holds of every page that lockstep writes: well-formed, and nothing in it comes from outside.
 */
#pragma once
void page_check(const char *page);
