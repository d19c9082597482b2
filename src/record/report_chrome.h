/* report_chrome.h - style sheet and script of the report page. */
#pragma once
extern const char ls_report_style[], ls_report_script[];
