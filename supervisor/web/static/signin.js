// An address with the token behind a # signs in by itself. What stands there is not sent to any server.
"use strict";

if (location.hash.length > 1) {
  document.getElementById("token").value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  document.querySelector("form").requestSubmit();
}
