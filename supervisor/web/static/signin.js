// An address with the token after a # signs in by itself. Browsers do not send that part to a server.
"use strict";

if (location.hash.length > 1) {
  document.getElementById("token").value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  document.querySelector("form").requestSubmit();
}
